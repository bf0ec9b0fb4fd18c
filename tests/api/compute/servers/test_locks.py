# SPDX-License-Identifier: Apache-2.0
"""A locked server refuses the actions of its project until the user who locked it or an administrator unlocks it."""

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from support.api_client import Client
from support.control import Control


def act(client: Client, uuid: str, **body: Any) -> Any:
    return client.post(f"/servers/{uuid}/action", body)


def at(control: Control, version: str) -> Client:
    return Client(control.process.application, "alice:wonder", version)


def lock_of(control: Control, uuid: str) -> tuple[bool, str | None]:
    shown = control.member.get(f"/servers/{uuid}").body["server"]
    return shown["locked"], shown["locked_reason"]


def actions(control: Control, uuid: str) -> list[str]:
    listed = control.member.get(f"/servers/{uuid}/os-instance-actions").body["instanceActions"]
    return [each["action"] for each in listed]


REFUSED: list[dict[str, Any]] = [
    {"os-stop": None},
    {"os-start": None},
    {"reboot": {"type": "HARD"}},
    {"pause": None},
    {"unpause": None},
    {"suspend": None},
    {"resume": None},
    {"resize": {"flavorRef": "2"}},
    {"confirmResize": None},
    {"revertResize": None},
]


def test_a_locked_server_refuses_its_project_and_no_administrator(control: Control) -> None:
    control.add_flavor("2", vcpus=2)
    uuid = control.boot()["id"]
    assert lock_of(control, uuid) == (False, None)
    answer = act(control.member, uuid, lock={"locked_reason": "do not touch"})
    assert (answer.status, answer.raw) == (202, b"")
    assert lock_of(control, uuid) == (True, "do not touch")
    for body in REFUSED:
        answer = act(control.member, uuid, **body)
        assert (answer.status, answer.fault) == (409, ("conflictingRequest", f"Instance {uuid} is locked")), body
    assert control.member.delete(f"/servers/{uuid}").status == 409
    assert act(control.admin, uuid, **{"os-stop": None}).status == 202
    control.settle()
    answer = act(control.member, uuid, unlock=None)
    assert (answer.status, answer.raw) == (202, b"")
    assert lock_of(control, uuid) == (False, None)
    assert act(control.member, uuid, **{"os-start": None}).status == 202
    control.settle()
    assert actions(control, uuid) == ["start", "unlock", "stop", "lock", "create"]
    listed = control.member.get(f"/servers/{uuid}/os-instance-actions").body["instanceActions"]
    events = control.member.get(f"/servers/{uuid}/os-instance-actions/{listed[3]['request_id']}")
    assert [(each["event"], each["result"]) for each in events.body["instanceAction"]["events"]] == [
        ("api_lock", "Success")
    ]
    assert control.member.delete(f"/servers/{uuid}").status == 204


def test_an_administrators_lock_is_not_the_owners_to_undo(control: Control) -> None:
    uuid = control.boot()["id"]
    act(control.member, uuid, lock={"locked_reason": "mine"})
    assert act(control.admin, uuid, lock={"locked_reason": "ours"}).status == 202
    assert lock_of(control, uuid) == (True, "ours")
    answer = act(control.member, uuid, unlock=None)
    assert (answer.status, answer.fault[0]) == (403, "forbidden")
    assert "os_compute_api:os-lock-server:unlock:unlock_override" in answer.fault[1]
    assert act(control.member, uuid, lock={"locked_reason": "mine again"}).status == 202
    assert lock_of(control, uuid) == (True, "ours")
    assert act(control.admin, uuid, unlock=None).status == 202
    assert lock_of(control, uuid) == (False, None)
    assert act(control.member, uuid, unlock=None).status == 202
    assert actions(control, uuid) == ["unlock", "lock", "lock", "create"]


def test_an_administrator_locks_in_the_moment_at_which_the_owner_unlocks(control: Control) -> None:
    uuid = control.boot()["id"]
    both = threading.Barrier(2)

    def at_once(client: Client, body: Any) -> int:
        both.wait(30)
        return int(act(client, uuid, **body).status)

    with ThreadPoolExecutor(2) as pool:
        for _ in range(30):
            assert act(control.member, uuid, lock=None).status == 202
            locked = pool.submit(at_once, control.admin, {"lock": None})
            unlocked = pool.submit(at_once, control.member, {"unlock": None})
            assert locked.result() == 202
            assert unlocked.result() in {202, 403}
            assert lock_of(control, uuid)[0], "whichever was first"
            assert act(control.admin, uuid, unlock=None).status == 202


def test_a_lock_of_the_owner_is_undone_by_an_administrator(control: Control) -> None:
    uuid = control.boot()["id"]
    act(control.member, uuid, lock=None)
    assert lock_of(control, uuid) == (True, None)
    assert act(control.admin, uuid, unlock=None).status == 202
    assert lock_of(control, uuid) == (False, None)


def test_locked_servers_are_found(control: Control) -> None:
    locked, other = control.boot()["id"], control.boot()["id"]
    act(control.member, locked, lock=None)
    for wanted, found in (("true", locked), ("false", other)):
        listed = control.member.get(f"/servers?locked={wanted}").body["servers"]
        assert [each["id"] for each in listed] == [found]
    for direction, found in (("asc", [other, locked]), ("desc", [locked, other])):
        listed = control.member.get(f"/servers?sort_key=locked&sort_dir={direction}").body["servers"]
        assert [each["id"] for each in listed] == found
    newest_first = at(control, "2.72").get("/servers?sort_key=locked&sort_dir=asc").body["servers"]
    assert [each["id"] for each in newest_first] == [other, locked]


SAID: list[tuple[str, Any, int]] = [
    ("2.1", None, 202),
    ("2.72", {"locked_reason": "passed over"}, 202),
    ("2.72", "anything", 202),
    ("2.73", {}, 202),
    ("2.73", {"locked_reason": "x" * 255}, 202),
    ("2.73", {"locked_reason": "x" * 256}, 400),
    ("2.73", {"locked_reason": ""}, 400),
    ("2.73", {"locked_reason": None}, 400),
    ("2.73", {"reason": "x"}, 400),
    ("2.73", "anything", 400),
]


def test_what_may_be_said_with_a_lock(control: Control) -> None:
    uuid = control.boot()["id"]
    for version, body, status in SAID:
        assert act(at(control, version), uuid, lock=body).status == status, (version, body)
        reason = body["locked_reason"] if version == "2.73" and status == 202 and body else None
        assert lock_of(control, uuid) == (status == 202, reason)
        act(control.member, uuid, unlock=None)


def test_before_their_versions_neither_is_shown(control: Control) -> None:
    uuid = control.boot()["id"]
    act(control.member, uuid, lock={"locked_reason": "why not"})
    for version, shown in (
        ("2.8", set()),
        ("2.9", {"locked"}),
        ("2.72", {"locked"}),
        ("2.73", {"locked", "locked_reason"}),
    ):
        server = at(control, version).get(f"/servers/{uuid}").body["server"]
        assert {"locked", "locked_reason"} & set(server) == shown
