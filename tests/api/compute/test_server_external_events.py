# SPDX-License-Identifier: Apache-2.0
"""Events of servers from other services: each has its own status code, and changes of power are applied."""

from typing import Any

import pytest

from kilonova.db import network_events, workflows
from kilonova.db.workflows import WorkflowRow
from kilonova.identifiers import new_uuid
from kilonova.model.network_event import NetworkEvent, NetworkEventName
from support.api_client import Answer
from support.control import Control

NOWHERE = "5b674f73-0000-4000-8000-000000000000"


def tell(control: Control, *events: dict[str, Any], at: str = "2.104") -> Answer:
    return control.admin.at(at).post("/os-server-external-events", {"events": list(events)})


def event(uuid: str, name: str = "network-changed", **more: Any) -> dict[str, Any]:
    return {"name": name, "server_uuid": uuid, **more}


def test_codes(control: Control) -> None:
    control.add_flavor("9", vcpus=64)
    there, nowhere = control.boot()["id"], control.boot(flavorRef="9")["id"]
    vif = event(there, "network-vif-plugged", tag="port", status="failed")
    answer = tell(control, vif)
    assert (answer.status, answer.body["events"]) == (200, [{**vif, "status": "completed", "code": 200}])
    answer = tell(control, event(NOWHERE), event(there), event(nowhere), event(there, "volume-extended"))
    assert answer.status == 207
    said = [(each["code"], each["status"], each["server_uuid"]) for each in answer.body["events"]]
    assert said == [
        (404, "failed", NOWHERE),
        (200, "completed", there),
        (422, "failed", nowhere),
        (400, "failed", there),
    ]
    refused = tell(control, event(NOWHERE), event(nowhere))
    assert (refused.status, [each["code"] for each in refused.body["events"]]) == (207, [404, 422])


@pytest.mark.parametrize(
    ("name", "since"),
    [
        ("volume-extended", "2.51"),
        ("power-update", "2.76"),
        ("accelerator-request-bound", "2.82"),
        ("volume-reimaged", "2.93"),
    ],
)
def test_names_that_came_later(control: Control, name: str, since: str) -> None:
    told = event(NOWHERE, name, tag="t")
    before = f"2.{int(since.partition('.')[2]) - 1}"
    assert (tell(control, told, at=before).status, tell(control, told, at=since).status) == (400, 207)


def test_bad_bodies(control: Control) -> None:
    good = event(NOWHERE)
    for bad in ({"name": "network-changed"}, {"server_uuid": NOWHERE}, {**good, "name": "x"}, {**good, "status": "x"},
                {**good, "server_uuid": "x"}, {**good, "tag": 3}, {**good, "more": 1}):  # fmt: skip
        assert tell(control, bad).status == 400, bad
    assert tell(control).status == 400
    assert control.admin.post("/os-server-external-events", {}).status == 400
    assert control.member.post("/os-server-external-events", {"events": [good]}).status == 403


def power(control: Control, uuid: str, tag: str) -> tuple[str, list[str]]:
    """Tell of a change of power, and return how the server is then, and what was done to it since it was made."""
    assert tell(control, event(uuid, "power-update", tag=tag)).status == 200
    control.settle()
    actions = control.member.get(f"/servers/{uuid}/os-instance-actions").body["instanceActions"]
    names = [action["action"] for action in reversed(actions)]
    return control.member.get(f"/servers/{uuid}").body["server"]["status"], names[1:]


def test_a_server_follows_its_power(control: Control) -> None:
    uuid = control.boot()["id"]
    assert power(control, uuid, "POWER_ON") == ("ACTIVE", [])
    assert power(control, uuid, "POWER_SIDEWAYS") == ("ACTIVE", [])
    assert power(control, uuid, "POWER_OFF") == ("SHUTOFF", ["stop"])
    assert power(control, uuid, "POWER_OFF") == ("SHUTOFF", ["stop"])
    control.member.post(f"/servers/{uuid}/action", {"lock": None})
    assert power(control, uuid, "POWER_ON") == ("ACTIVE", ["stop", "lock", "start"])
    control.check()
    control.member.post(f"/servers/{uuid}/action", {"pause": None})  # locked for the service, not for its owner


def test_events_about_ports_are_stored_for_workflows_that_wait(networked_control: Control) -> None:
    server = networked_control.boot(networks="none")["id"]
    database = networked_control.process.database
    names = {"uuid": new_uuid(), "kind": "stop", "reservation_id": "", "request_id": "req-1", "step": "stop"}
    waiting = WorkflowRow(instance_uuid=server, **names)
    database.write(lambda tx: workflows.insert(tx, [waiting], "another process"))
    plugged = event(server, "network-vif-plugged", tag="port-1")
    failed = event(server, "network-vif-unplugged", tag="port-2", status="failed")
    told = [plugged, failed, event(server), event(NOWHERE)]
    assert tell(networked_control, *told).status == 207
    with database.read() as connection:
        stored = {each.event for each in network_events.of_server(connection, server)}
        assert network_events.servers_with_events(connection, [NOWHERE]) == set()
    assert stored == {
        NetworkEvent(NetworkEventName.VIF_PLUGGED, server, "port-1"),
        NetworkEvent(NetworkEventName.VIF_UNPLUGGED, server, "port-2", "failed"),
    }
