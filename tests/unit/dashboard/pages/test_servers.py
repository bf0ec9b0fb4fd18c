# SPDX-License-Identifier: Apache-2.0
from typing import Any

import httpx
import orjson
import pytest

from support.dashboards import Browser, FakeCloud, server

UUID = server()["id"]
ATTACK = "<img src=x onerror=alert(1)>"
ACTION: dict[str, Any] = {
    "action": "create",
    "request_id": "req-1",
    "start_time": "2026-11-28T15:00:00.000000",
    "message": None,
}
DECISION: dict[str, Any] = {
    "request_id": "req-1",
    "server_id": UUID,
    "created_at": "2026-11-28T15:00:00.000000Z",
    "seq": 12,
    "chosen": "node1",
    "survivors": 1,
    "forced": False,
    "steps": [
        {"rule": "Placement: VCPU", "reason": "cannot give 4 VCPU", "hosts_in": 3, "hosts_out": 1, "removed": []}
    ],
    "ranked": [{"host": "node1", "node": "node1", "score": 1.5, "weights": {"CPUWeigher": 1.5, "RAMWeigher": 0}}],
}


def asked(cloud: FakeCloud, path: str) -> httpx.QueryParams:
    """Return the query of the last request for a path."""
    return next(request.url.params for request in reversed(cloud.asked) if request.url.path == path)


def test_filters_are_those_of_the_compute_api(operator: Browser, cloud: FakeCloud) -> None:
    assert operator.get("/servers?name=web&status=ERROR&host=node1&limit=7&bogus=1").status_code == 200
    query = dict(asked(cloud, "/v2.1/servers/detail"))
    assert query == {"name": "web", "status": "ERROR", "host": "node1", "limit": "50", "all_tenants": "1"}


def test_a_member_asks_for_the_own_project_only(member: Browser, cloud: FakeCloud) -> None:
    member.get("/servers?all=1&host=node1&project_id=other")
    assert dict(asked(cloud, "/v2.1/servers/detail")) == {"limit": "50"}
    assert "node1" not in member.get("/servers").text


def test_the_next_page_keeps_the_filters(operator: Browser, cloud: FakeCloud) -> None:
    link = {"rel": "next", "href": f"http://compute.test/v2.1/servers/detail?marker={UUID}&limit=50"}
    cloud.answers["GET", "/v2.1/servers/detail"] = {"servers": [server()], "servers_links": [link]}
    assert f"/servers?status=ACTIVE&amp;marker={UUID}" in operator.get("/servers?status=ACTIVE").text
    operator.get(f"/servers?status=ACTIVE&marker={UUID}")
    assert asked(cloud, "/v2.1/servers/detail")["marker"] == UUID


def test_the_list_as_a_file(operator: Browser) -> None:
    (row,) = orjson.loads(operator.get("/servers.json").content)
    assert (row["name"], row["addresses"], row["host"]) == ("web-1", "10.0.0.5", "node1")


@pytest.mark.parametrize("path", ["/servers", f"/servers/{UUID}", f"/servers/{UUID}/decision"])
def test_names_of_tenants_are_never_code(operator: Browser, cloud: FakeCloud, path: str) -> None:
    attacked = server(
        ATTACK,
        metadata={ATTACK: ATTACK},
        tags=[ATTACK],
        key_name=ATTACK,
        locked=True,
        locked_reason=ATTACK,
        fault={"message": ATTACK, "created": ATTACK},
        addresses={ATTACK: [{"addr": ATTACK}]},
        flavor={"original_name": ATTACK, "vcpus": 1, "ram": 1, "disk": 1},
    )
    cloud.answers["GET", "/v2.1/servers/detail"] = {"servers": [attacked]}
    cloud.answers["GET", f"/v2.1/servers/{UUID}"] = {"server": attacked}
    cloud.answers["GET", f"/v2.1/servers/{UUID}/os-instance-actions"] = {
        "instanceActions": [{**ACTION, "action": ATTACK, "message": ATTACK}]
    }
    cloud.answers["GET", f"/v1/decisions/{UUID}"] = {"decisions": [DECISION]}
    page = operator.get(path)
    assert page.status_code == 200
    assert "<img src=x" not in page.text
    assert "&lt;img src=x" in page.text


def test_one_server_with_its_actions(operator: Browser, cloud: FakeCloud) -> None:
    cloud.answers["GET", f"/v2.1/servers/{UUID}"] = {"server": server()}
    cloud.answers["GET", f"/v2.1/servers/{UUID}/os-instance-actions"] = {"instanceActions": [ACTION]}
    event = {"event": "compute__do_build_and_run_instance", "result": "Success", "host": "node1"}
    detail = {"instanceAction": {**ACTION, "events": [event]}}
    cloud.answers["GET", f"/v2.1/servers/{UUID}/os-instance-actions/req-1"] = detail
    page = operator.get(f"/servers/{UUID}").text
    assert "compute__do_build_and_run_instance" in page
    assert f"/servers/{UUID}/decision" in page
    assert operator.get("/servers/none").status_code == 404


def test_the_funnel_of_a_decision(operator: Browser, cloud: FakeCloud) -> None:
    cloud.answers["GET", f"/v1/decisions/{UUID}"] = {"decisions": [DECISION, {**DECISION, "chosen": None}]}
    page = operator.get(f"/servers/{UUID}/decision").text
    assert "3 hosts in, 1 left" in page
    assert "CPU +1.500" in page
    assert "RAM" not in page
    assert "found no host" in operator.get(f"/servers/{UUID}/decision?n=1").text


def test_a_token_that_is_no_longer_valid_signs_out(operator: Browser, cloud: FakeCloud) -> None:
    cloud.revoked.add("the-token-of-root")
    answer = operator.get("/servers")
    assert (answer.status_code, answer.headers["location"]) == (303, "/sign-in")
    assert operator.get("/servers").headers["location"].startswith("/sign-in?to=")
