# SPDX-License-Identifier: Apache-2.0
"""Actions of a server with their users and events, at every microversion."""

from typing import Any

import pytest

from support.api_client import Client
from support.control import Control, NewControl
from support.waiting import wait_until

_SCENARIO = """
images: [{name: cirros}]
hosts:
  - {name: node1, vcpus: 8, memory_mib: 32768, live_migration_s: 60}
  - {name: node2, vcpus: 8, memory_mib: 16384, failing_moves: 1}
"""


@pytest.fixture(scope="module")
def past(new_shared_control: NewControl) -> tuple[Control, str]:
    """A server that was made on node1, which has more memory, stopped, started, and could not be resized."""
    control = new_shared_control(scenario=_SCENARIO)
    control.add_flavor("2", ram=1024)
    uuid = control.boot()["id"]
    for body in ({"os-stop": None}, {"os-start": None}, {"resize": {"flavorRef": "2"}}):
        assert control.member.post(f"/servers/{uuid}/action", body).status == 202
        control.settle()
    return control, uuid


def actions(control: Control, uuid: str, query: str = "", client: Client | None = None) -> list[dict[str, Any]]:
    answer = (client or control.member).get(f"/servers/{uuid}/os-instance-actions{query}")
    assert answer.status == 200, answer.body
    listed: list[dict[str, Any]] = answer.body["instanceActions"]
    return listed


def action(control: Control, uuid: str, name: str, client: Client | None = None) -> dict[str, Any]:
    request_id = next(each["request_id"] for each in actions(control, uuid) if each["action"] == name)
    shown: dict[str, Any] = (
        (client or control.member).get(f"/servers/{uuid}/os-instance-actions/{request_id}").body["instanceAction"]
    )
    return shown


_FIRST = {"action", "instance_uuid", "request_id", "user_id", "project_id", "start_time", "message"}


@pytest.mark.parametrize(("version", "more"), [("2.1", set()), ("2.57", set()), ("2.58", {"updated_at"})])
def test_the_list_at_each_version(past: Any, version: str, more: set[str]) -> None:
    control, uuid = past
    listed = actions(control, uuid, client=control.member.at(version))
    assert [each["action"] for each in listed] == ["resize", "start", "stop", "create"]
    assert [each["message"] for each in listed] == ["Error", None, None, None]
    assert {frozenset(each) for each in listed} == {frozenset(_FIRST | more)}
    assert {(each["user_id"], each["project_id"]) for each in listed} == {("alice", "wonder")}


def test_an_action_is_as_new_as_its_last_event(past: Any) -> None:
    control, uuid = past
    for name in ("create", "stop", "resize"):
        shown = action(control, uuid, name)
        assert shown["updated_at"] >= max(event["finish_time"] for event in shown["events"])
        assert shown["start_time"] <= min(event["start_time"] for event in shown["events"])


def test_the_events_of_an_action_say_which_step_failed(past: Any) -> None:
    control, uuid = past
    shown = action(control, uuid, "resize", control.admin)
    events = {event["event"]: event for event in shown["events"]}
    assert [(event["event"], event["result"]) for event in shown["events"]] == [
        ("conductor_migrate_server", "Error"),  # there is no other host to try
        ("compute_finish_resize", "Error"),
        ("compute_resize_instance", "Success"),
        ("conductor_migrate_server", "Success"),
    ]
    failed = events["compute_finish_resize"]
    assert "Simulated failure" in failed["details"]
    assert "Simulated failure" in failed["traceback"]
    assert failed["host"] == "node2"
    server = control.admin.get(f"/servers/{uuid}").body["server"]
    assert (server["status"], server["OS-EXT-SRV-ATTR:host"]) == ("ERROR", "node1")
    assert server["OS-EXT-STS:power_state"] == 1


@pytest.mark.parametrize(
    ("version", "member", "admin"),
    [
        ("2.1", None, {"traceback"}),
        ("2.50", None, {"traceback"}),
        ("2.51", set(), {"traceback"}),
        ("2.62", {"hostId"}, {"traceback", "hostId", "host"}),
        ("2.84", {"hostId"}, {"traceback", "hostId", "host", "details"}),
    ],
)
def test_who_sees_what_of_events(past: Any, version: str, member: set[str] | None, admin: set[str]) -> None:
    control, uuid = past
    plain = {"event", "start_time", "finish_time", "result"}
    for client, more in ((control.member, member), (control.admin, admin)):
        shown = action(control, uuid, "resize", client.at(version))
        if more is None:
            assert "events" not in shown
        else:
            assert {frozenset(event) for event in shown["events"]} == {frozenset(plain | more)}


def test_pages_and_periods(past: Any) -> None:
    control, uuid = past
    seen, path = [], f"/servers/{uuid}/os-instance-actions?limit=3"
    while path:
        body = control.member.get(path).body
        seen += [each["action"] for each in body["instanceActions"]]
        path = body["links"][0]["href"].partition("/v2.1")[2] if body.get("links") else ""
    assert seen == ["resize", "start", "stop", "create"]
    middle = action(control, uuid, "start")["start_time"]
    assert [each["action"] for each in actions(control, uuid, f"?changes-since={middle}")] == ["resize", "start"]
    assert [each["action"] for each in actions(control, uuid, f"?changes-before={middle}")] == ["stop", "create"]
    assert actions(control, uuid, "?limit=0") == []


@pytest.mark.parametrize(
    ("version", "query"),
    [
        ("2.58", "?limit=-1"),
        ("2.58", "?marker=req-none"),
        ("2.58", "?changes-since=now"),
        ("2.58", "?changes-before=2020-01-01"),
        ("2.66", "?changes-since=2020-01-02&changes-before=2020-01-01"),
        ("2.66", "?sort_key=action"),
    ],
)
def test_bad_queries(past: Any, version: str, query: str) -> None:
    control, uuid = past
    answer = control.member.at(version).get(f"/servers/{uuid}/os-instance-actions{query}")
    assert answer.status == 400
    assert answer.fault[1]


def test_actions_that_there_are_not(past: Any) -> None:
    control, uuid = past
    assert control.member.get(f"/servers/{uuid}/os-instance-actions/req-none").status == 404
    assert control.stranger.get(f"/servers/{uuid}/os-instance-actions").status == 404
    request_id = actions(control, uuid)[0]["request_id"]
    assert control.stranger.get(f"/servers/{uuid}/os-instance-actions/{request_id}").status == 404


def test_the_step_under_way_is_an_event_without_end(past: Any) -> None:
    control, _ = past
    uuid = control.boot(name="moving")["id"]
    live = {"os-migrateLive": {"host": None, "block_migration": "auto"}}
    assert control.admin.post(f"/servers/{uuid}/action", live).status == 202
    wait_until(
        lambda: action(control, uuid, "live-migration")["events"][0]["event"] == "compute_live_migration", "copying"
    )
    copying, *before = action(control, uuid, "live-migration", control.admin)["events"]
    assert (copying["finish_time"], copying["result"]) == (None, None)
    assert copying["host"] == "node2"
    assert [event["result"] for event in before] == ["Success", "Success"]
    (running,) = control.admin.get(f"/servers/{uuid}/migrations").body["migrations"]
    assert control.admin.delete(f"/servers/{uuid}/migrations/{running['id']}").status == 202
    control.settle()
    names = [each["action"] for each in actions(control, uuid)]
    assert names == ["live_migration_cancel", "live-migration", "create"]
    ended = action(control, uuid, "live-migration", control.admin)["events"][0]
    assert ended["event"] == "compute_live_migration"
    assert ended["finish_time"] is not None


def test_a_deleted_server_keeps_its_past(past: Any) -> None:
    control, _ = past
    uuid = control.boot(name="gone")["id"]
    assert control.member.delete(f"/servers/{uuid}").status == 204
    control.settle()
    assert control.member.at("2.20").get(f"/servers/{uuid}/os-instance-actions").status == 404
    assert [each["action"] for each in actions(control, uuid, client=control.member.at("2.21"))] == ["delete", "create"]
    assert [event["result"] for event in action(control, uuid, "delete")["events"]] == ["Success"]
    assert control.stranger.get(f"/servers/{uuid}/os-instance-actions").status == 404
