# SPDX-License-Identifier: Apache-2.0
"""The operator API in front of a whole control process with simulated hosts."""

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kilonova.cli.wiring.control import ControlProcess, image_id, start_control_process
from kilonova.config.load import load_settings
from support.api_client import send as send_bytes
from support.waiting import wait_until

Call = Callable[..., tuple[int, Any]]

CONF = """
[api]
auth_strategy = noauth2
[database]
connection = sqlite:///{folder}/k.db
[fake]
state_dir = {folder}/hypervisors
scenario = {folder}/two.yaml
[filter_scheduler]
enabled_filters = ComputeFilter,ServerGroupAntiAffinityFilter
"""
SCENARIO = """
hosts:
  - {name: node, count: 2, memory_mib: 2512}
images:
  - {name: disk}
  - {name: tagged, properties: {trove: "true"}}
"""


@pytest.fixture
def control(tmp_path: Path) -> Iterator[ControlProcess]:
    (tmp_path / "k.conf").write_text(CONF.format(folder=tmp_path))
    (tmp_path / "two.yaml").write_text(SCENARIO)
    process = start_control_process(load_settings([str(tmp_path / "k.conf")]))
    yield process
    process.close()


@pytest.fixture
def call(control: ControlProcess) -> Call:
    def send(method: str, path: str, body: Any = None, token: str = "admin") -> tuple[int, Any]:
        raw = json.dumps(body).encode() if body is not None else b""
        headers = {"X-Auth-Token": token, "Content-Type": "application/json", "Content-Length": str(len(raw))}
        answer = send_bytes(control.application, method, path, raw, headers)
        return answer.status, answer.body

    return send


def build(call: Call, **server: Any) -> str:
    flavor = {"name": "f", "id": "f", "ram": 1000, "vcpus": 1, "disk": 1}
    call("POST", "/compute/v2.1/flavors", {"flavor": flavor})
    asked = {"name": "s", "flavorRef": "f", "imageRef": image_id("disk"), **server}
    status, answer = call("POST", "/compute/v2.1/servers", {"server": asked})
    assert status == 202, answer
    server_id = str(answer["server"]["id"])
    while call("GET", f"/compute/v2.1/servers/{server_id}")[1]["server"]["status"] == "BUILD":
        time.sleep(0.01)
    return server_id


def decisions_of(call: Call, name: str) -> list[dict[str, Any]]:
    deadline = time.monotonic() + 5  # they are stored in the background
    while True:
        status, answer = call("GET", f"/operator/v1/decisions/{name}")
        if status == 200 or time.monotonic() > deadline:
            found: list[dict[str, Any]] = answer["decisions"]
            return found
        time.sleep(0.01)


def test_a_decision_is_kept_under_server_and_request(call: Call) -> None:
    server_id = build(call)
    (decision,) = decisions_of(call, server_id)
    assert decision["server_id"] == server_id
    assert decision["chosen"] == "node1"
    assert decision["scheduled_at"] == decision["created_at"]
    assert [host["host"] for host in decision["ranked"]] == ["node1", "node2"]
    assert [step["rule"] for step in decision["steps"]][-2:] == ["ComputeFilter", "ServerGroupAntiAffinityFilter"]
    assert decisions_of(call, decision["request_id"]) == [decision]


def test_every_server_of_a_request_that_is_refused_has_the_reason(call: Call) -> None:
    server_id = build(call, min_count=5)
    servers = [server["id"] for server in call("GET", "/compute/v2.1/servers")[1]["servers"]]
    assert len(servers) == 5
    assert server_id in servers
    for each in servers:
        (decision,) = decisions_of(call, each)
        assert (decision["chosen"], decision["scheduled_at"]) == (None, None)
        removed = {step["rule"]: [host["host"] for host in step["removed"]] for step in decision["steps"]}
        assert removed["Placement: MEMORY_MB"] == ["node1", "node2"]
        assert [step["rule"] for step in decision["steps"] if not step["hosts_out"]] == ["Placement: MEMORY_MB"]


def test_the_options_in_force_are_shown_without_secrets(call: Call, tmp_path: Path) -> None:
    options = call("GET", "/operator/v1/options")[1]["options"]
    assert options["filter_scheduler"]["enabled_filters"] == ["ComputeFilter", "ServerGroupAntiAffinityFilter"]
    assert options["scheduler"]["max_attempts"] == 3
    assert options["DEFAULT"]["service_down_time"] == 60
    assert options["fake"]["scenario"] == f"{tmp_path}/two.yaml"
    assert "connection" not in options.get("database", {})
    assert "keystone_authtoken" not in options


@pytest.mark.parametrize("path", ["decisions/x", "options", "isolation"])
def test_a_plain_member_sees_nothing_of_it(call: Call, path: str) -> None:
    assert call("GET", f"/operator/v1/{path}", token="alice:wonder")[0] == 403


def test_an_unknown_decision_is_not_found(call: Call) -> None:
    assert call("GET", "/operator/v1/decisions/nobody")[0] == 404


def isolate(call: Call, host: str, rule: str) -> None:
    status, made = call("POST", "/compute/v2.1/os-aggregates", {"aggregate": {"name": f"pool of {host}"}})
    assert status == 200
    action = f"/compute/v2.1/os-aggregates/{made['aggregate']['id']}/action"
    assert call("POST", action, {"add_host": {"host": host}})[0] == 200
    assert call("POST", action, {"set_metadata": {"metadata": {"kilonova:only": rule}}})[0] == 200


def test_isolation_of_a_cloud_without_rules_is_clean(call: Call) -> None:
    status, answer = call("GET", "/operator/v1/isolation")
    assert status == 200
    assert answer["isolation"]["clean"] is True
    assert answer["isolation"]["open_hosts"] == ["node1", "node2"]


def test_isolation_is_kept_and_audited(call: Call) -> None:
    outside = build(call, imageRef=image_id("tagged"))
    assert decisions_of(call, outside)[0]["chosen"] == "node1"
    isolate(call, "node2", "image.trove")
    servers = {image: build(call, imageRef=image_id(image)) for image in ("disk", "tagged")}
    assert {image: decisions_of(call, uuid)[0]["chosen"] for image, uuid in servers.items()} == {
        "disk": "node1",
        "tagged": "node2",
    }
    (step,) = [each for each in decisions_of(call, servers["disk"])[0]["steps"] if each["rule"] == "isolation"]
    assert (step["reason"], step["removed"]) == (
        "reserved by isolation rules for other servers",
        [{"host": "node2", "node": "node2"}],
    )
    private = {"name": "own", "ram": 64, "vcpus": 1, "disk": 1, "os-flavor-access:is_public": False}
    assert call("POST", "/compute/v2.1/flavors", {"flavor": private})[0] == 200

    report = call("GET", "/operator/v1/isolation")[1]["isolation"]
    assert report["clean"] is False
    (pool,) = report["pools"]
    assert pool == {
        "rule": "image.trove",
        "aggregates": ["pool of node2"],
        "hosts": ["node2"],
        "may_enter": [{"flavors": ["f", "own"], "images": ["tagged"], "projects": ["*"]}],
    }
    assert (report["examined"]["flavors"], report["examined"]["images"], report["examined"]["servers"]) == (2, 2, 3)
    (leak,) = [finding for finding in report["findings"] if finding["severity"] == "leak"]
    assert (leak["kind"], leak["hosts"]) == ("stray", ["node1"])
    assert [(each["id"], each["image"]) for each in leak["servers"]] == [(outside, "tagged")]
    assert call("DELETE", f"/compute/v2.1/servers/{outside}")[0] == 204
    wait_until(lambda: call("GET", "/operator/v1/isolation")[1]["isolation"]["clean"], "the leak is gone")


def test_a_forced_host_is_no_way_around_isolation(call: Call) -> None:
    isolate(call, "node2", "image.trove")
    server_id = build(call, availability_zone="nova:node2")
    fault = call("GET", f"/compute/v2.1/servers/{server_id}")[1]["server"]["fault"]
    assert "isolation: 1 of 1 hosts" in fault["message"]
    assert "trove" not in fault["message"]


def test_a_decision_can_be_made_again(call: Call) -> None:
    deadline = time.monotonic() + 5  # the first checkpoint is taken in the background
    server_id = build(call)
    (told,) = decisions_of(call, server_id)
    while True:
        (decision,) = call("GET", f"/operator/v1/decisions/{server_id}?replay=true")[1]["decisions"]
        replay = decision.pop("replay")
        assert decision == told
        if replay["possible"] or time.monotonic() > deadline:
            break
        server_id = build(call)
        (told,) = decisions_of(call, server_id)
    assert replay == {"possible": True, "identical": True, "differences": [], "notes": []}
    (decision,) = call("GET", f"/operator/v1/decisions/{server_id}?hosts=true&host=node1")[1]["decisions"]
    hosts = decision["replay"]["hosts"]
    assert [host["host"] for host in hosts] == ["node1"]
    assert decision["replay"]["rules"][-1]["rule"] == "ServerGroupAntiAffinityFilter"
    for query in ("replay=maybe", "hosts=1", "hosts=true&limit=x", "hosts=true&marker=nobody"):
        assert call("GET", f"/operator/v1/decisions/{server_id}?{query}")[0] == 400
