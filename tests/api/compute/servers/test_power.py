# SPDX-License-Identifier: Apache-2.0
from typing import Any

import pytest

from support.control import Control
from support.world import power_states_on_disk


def act(control: Control, uuid: str, body: Any, client: Any = None) -> Any:
    return (client or control.member).post(f"/servers/{uuid}/action", body)


@pytest.mark.parametrize("kind", ["HARD", "Hard", "hard", "SOFT", "Soft", "soft"])
def test_reboot(control: Control, kind: str) -> None:
    uuid = control.boot()["id"]
    answer = act(control, uuid, {"reboot": {"type": kind}})
    assert (answer.status, answer.raw) == (202, b"")
    assert control.settled_status(uuid) == "ACTIVE"
    control.check()


def test_stop_and_start(control: Control) -> None:
    uuid = control.boot()["id"]
    assert act(control, uuid, {"os-stop": None}).status == 202
    assert control.settled_status(uuid) == "SHUTOFF"
    shown = control.member.get(f"/servers/{uuid}").body["server"]
    assert shown["OS-EXT-STS:power_state"] == 4
    assert "progress" not in shown
    assert act(control, uuid, {"os-start": None}).status == 202
    assert control.settled_status(uuid) == "ACTIVE"
    control.check()


@pytest.mark.parametrize(
    ("there", "status", "power_state", "back"),
    [("pause", "PAUSED", 3, "unpause"), ("suspend", "SUSPENDED", 7, "resume")],
)
def test_a_server_stands_still_and_goes_on(
    control: Control, there: str, status: str, power_state: int, back: str
) -> None:
    uuid = control.boot()["id"]
    assert act(control, uuid, {back: None}).status == 409
    answer = act(control, uuid, {there: None})
    assert (answer.status, answer.raw) == (202, b"")
    assert control.settled_status(uuid) == status
    shown = control.member.get(f"/servers/{uuid}").body["server"]
    assert (shown["OS-EXT-STS:power_state"], shown["OS-EXT-STS:task_state"]) == (power_state, None)
    assert power_states_on_disk(control.folder / "hypervisors")[uuid] == power_state
    for wrong in (there, "os-start", "os-stop"):
        answer = act(control, uuid, {wrong: None})
        assert answer.status == 409
        assert answer.fault[1].endswith(f"while it is in vm_state {status.lower()}")
    assert act(control, uuid, {back: None}).status == 202
    assert control.settled_status(uuid) == "ACTIVE"
    actions = control.member.get(f"/servers/{uuid}/os-instance-actions").body["instanceActions"]
    assert [each["action"] for each in actions] == [back, there, "create"]
    events = control.member.get(f"/servers/{uuid}/os-instance-actions/{actions[1]['request_id']}")
    assert [each["event"] for each in events.body["instanceAction"]["events"]] == [f"compute_{there}_instance"]
    control.check()


@pytest.mark.parametrize("there", ["pause", "suspend"])
def test_a_hard_reboot_wakes_a_server_that_stands_still(control: Control, there: str) -> None:
    uuid = control.boot()["id"]
    act(control, uuid, {there: None})
    control.settle()
    assert act(control, uuid, {"reboot": {"type": "HARD"}}).status == 202
    assert control.settled_status(uuid) == "ACTIVE"
    control.check()


def test_actions_in_the_wrong_state(control: Control) -> None:
    uuid = control.boot()["id"]
    answer = act(control, uuid, {"os-start": None})
    assert answer.status == 409
    assert answer.fault == ("conflictingRequest", f"Cannot 'start' instance {uuid} while it is in vm_state active")
    act(control, uuid, {"os-stop": None})
    control.settle()
    for body in ({"os-stop": None}, {"reboot": {"type": "SOFT"}}):
        assert act(control, uuid, body).status == 409
    assert act(control, uuid, {"reboot": {"type": "HARD"}}).status == 202
    assert control.settled_status(uuid) == "ACTIVE"


def test_a_server_that_never_ran(control: Control) -> None:
    control.add_flavor("9", vcpus=64)
    uuid = control.boot(flavorRef="9")["id"]
    for body in ({"os-start": None}, {"os-stop": None}, {"reboot": {"type": "HARD"}}):
        assert act(control, uuid, body).status == 409


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"fly": None}, "There is no such action: fly"),
        ({}, "exactly one action"),
        ({"os-start": None, "os-stop": None}, "exactly one action"),
        ([], ""),
        (None, ""),
        ({"reboot": {}}, "type"),
        ({"reboot": {"type": "GENTLE"}}, "type"),
        ({"reboot": None}, "reboot"),
    ],
)
def test_bad_actions(control: Control, body: Any, words: str) -> None:
    uuid = control.boot()["id"]
    before = control.everything()
    answer = act(control, uuid, body)
    assert answer.status == 400
    assert words in answer.fault[1]
    assert control.everything() == before


@pytest.mark.parametrize("given", [{}, [], 1, "", {"more": None}])
def test_what_is_given_with_an_action_that_takes_nothing_is_passed_over(control: Control, given: Any) -> None:
    uuid = control.boot()["id"]
    for action, status in (
        ("pause", "PAUSED"), ("unpause", "ACTIVE"), ("suspend", "SUSPENDED"), ("resume", "ACTIVE"),
        ("os-stop", "SHUTOFF"),
        ("os-start", "ACTIVE"), ("lock", "ACTIVE"), ("unlock", "ACTIVE"), ("forceDelete", None),
    ):  # fmt: skip
        client = type(control.member)(control.process.application, control.member.token, "2.72")
        assert act(control, uuid, {action: given}, client).status == 202, action
        assert status is None or control.settled_status(uuid) == status


def test_actions_on_the_servers_of_others(control: Control) -> None:
    uuid = control.boot()["id"]
    before = control.everything()
    for body in ({"os-stop": None}, {"reboot": {"type": "HARD"}}, {"os-start": None}):
        assert act(control, uuid, body, control.stranger).status == 404
        reader = type(control.member)(control.process.application, "bob:wonder", "2.100", {"X-Roles": "reader"})
        assert act(control, uuid, body, reader).status == 403
    assert control.everything() == before
    assert act(control, uuid, {"os-stop": None}, control.admin).status == 202
    assert control.settled_status(uuid) == "SHUTOFF"
