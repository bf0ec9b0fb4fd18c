# SPDX-License-Identifier: Apache-2.0
"""The operator API in front of a whole control process with simulated hosts."""

import io
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kilonova import config
from kilonova.cli.control import ControlProcess, image_id, start_control_process

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
"""


@pytest.fixture
def control(tmp_path: Path) -> Iterator[ControlProcess]:
    (tmp_path / "k.conf").write_text(CONF.format(folder=tmp_path))
    (tmp_path / "two.yaml").write_text(SCENARIO)
    process = start_control_process(config.load([str(tmp_path / "k.conf")]))
    yield process
    process.close()


@pytest.fixture
def call(control: ControlProcess) -> Call:
    def send(method: str, path: str, body: Any = None, token: str = "admin") -> tuple[int, Any]:
        raw = json.dumps(body).encode() if body is not None else b""
        environ = {
            "REQUEST_METHOD": method,
            "PATH_INFO": path,
            "QUERY_STRING": "",
            "SERVER_NAME": "cloud",
            "SERVER_PORT": "80",
            "SERVER_PROTOCOL": "HTTP/1.1",
            "wsgi.url_scheme": "http",
            "wsgi.input": io.BytesIO(raw),
            "wsgi.errors": io.StringIO(),
            "HTTP_HOST": "cloud",
            "HTTP_X_AUTH_TOKEN": token,
            "CONTENT_TYPE": "application/json",
            "CONTENT_LENGTH": str(len(raw)),
        }
        seen: list[str] = []
        answer = b"".join(control.application(environ, lambda status, *_: seen.append(status)))
        return int(seen[0].split()[0]), json.loads(answer) if answer else None

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
        assert decision["chosen"] is None
        (last,) = [step for step in decision["steps"] if not step["hosts_out"]]
        assert last["rule"] == "Placement: MEMORY_MB"
        assert [host["host"] for host in last["removed"]] == ["node1", "node2"]


def test_the_options_in_force_are_shown_without_secrets(call: Call, tmp_path: Path) -> None:
    options = call("GET", "/operator/v1/options")[1]["options"]
    assert options["filter_scheduler"]["enabled_filters"] == ["ComputeFilter", "ServerGroupAntiAffinityFilter"]
    assert options["scheduler"]["max_attempts"] == 3
    assert options["DEFAULT"]["service_down_time"] == 60
    assert options["fake"]["scenario"] == f"{tmp_path}/two.yaml"
    assert "connection" not in options.get("database", {})
    assert "keystone_authtoken" not in options


@pytest.mark.parametrize("path", ["decisions/x", "options"])
def test_a_plain_member_sees_nothing_of_it(call: Call, path: str) -> None:
    assert call("GET", f"/operator/v1/{path}", token="alice:wonder")[0] == 403


def test_an_unknown_decision_is_not_found(call: Call) -> None:
    assert call("GET", "/operator/v1/decisions/nobody")[0] == 404
