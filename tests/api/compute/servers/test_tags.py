# SPDX-License-Identifier: Apache-2.0
"""Tags of servers: rows 14 to 19 of the API of servers."""

import itertools
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import quote

import pytest

from kilonova.db import instances
from kilonova.model.instance import TaskState, VmState
from support.control import Control, NewControl


@pytest.fixture(scope="module")
def control(new_shared_control: NewControl) -> Control:
    return new_shared_control()


@pytest.fixture
def path(control: Control) -> str:
    return f"/servers/{control.boot(tags=['red'])['id']}/tags"


def test_tags_come_and_go(control: Control, path: str) -> None:
    member = control.member
    assert member.get(path).body == {"tags": ["red"]}
    added = member.put(f"{path}/{quote('dark blue é', safe='')}")
    assert (added.status, added.raw) == (201, b"")
    assert added.headers["location"].endswith(f"/v2.1{path}/dark%20blue%20%C3%A9")
    again = member.put(f"{path}/dark%20blue%20%C3%A9")
    assert (again.status, again.raw, "location" in again.headers) == (204, b"", False)
    assert (member.get(f"{path}/red").status, member.get(f"{path}/green").status) == (204, 404)
    assert member.get(path.removesuffix("/tags")).body["server"]["tags"] == ["dark blue é", "red"]
    assert member.delete(f"{path}/red").status == 204
    assert member.delete(f"{path}/red").status == 404
    replaced = member.put(path, {"tags": ["b", "a", "b"]})
    assert (replaced.status, replaced.body) == (200, {"tags": ["a", "b"]})
    assert len(member.get("/servers?tags=a,b").body["servers"]) == 1
    assert member.delete(path).status == 204
    assert member.get(path).body == {"tags": []}


@pytest.mark.parametrize(
    ("where", "body"),
    [
        ("", {"tags": ["x" * 61]}),
        ("", {"tags": ["a,b"]}),
        ("", {"tags": [""]}),
        ("", {"tags": [1]}),
        ("", {"tags": [str(number) for number in range(51)]}),
        ("", {}),
        ("", None),
        ("/a%2Cb", None),
        ("/" + "x" * 61, None),
        ("/a", {"tag": "a"}),
    ],
)
def test_bad_tags(control: Control, path: str, where: str, body: Any) -> None:
    answer = control.member.put(f"{path}{where}", body)
    assert answer.status == 400
    assert control.member.get(path).body == {"tags": ["red"]}


def test_fifty_at_most_also_at_the_same_time(control: Control, path: str) -> None:
    assert control.member.put(path, {"tags": [f"t{number}" for number in range(45)]}).status == 200
    with ThreadPoolExecutor(8) as pool:
        answers = [each.status for each in pool.map(lambda n: control.member.put(f"{path}/n{n}"), range(20))]
    assert sorted(answers) == [201] * 5 + [400] * 15
    assert control.member.put(f"{path}/t1").status == 204
    assert len(control.member.get(path).body["tags"]) == 50


@pytest.mark.parametrize("state", sorted(set(VmState) - {VmState.DELETED}))
def test_in_every_state(control: Control, path: str, state: VmState) -> None:
    uuid = path.split("/")[2]

    def change(**values: Any) -> None:
        control.process.database.write(lambda tx: instances.change(tx, uuid, **values))

    change(vm_state=state, task_state=TaskState.MIGRATING, locked_by="admin")
    allowed = state in {VmState.ACTIVE, VmState.PAUSED, VmState.SUSPENDED, VmState.STOPPED}
    for answer in (
        control.member.put(f"{path}/new"),
        control.member.delete(f"{path}/red"),
        control.member.put(path, {"tags": ["a"]}),
        control.member.delete(path),
    ):
        assert answer.status < 300 if allowed else answer.status == 409
    assert control.member.get(path).status == 200
    change(vm_state=VmState.ACTIVE, task_state=None, locked_by=None)


def test_since_which_version_and_for_whom(control: Control, path: str) -> None:
    for method, where in itertools.product(("GET", "PUT", "DELETE"), ("", "/red")):
        body = {"tags": []} if (method, where) == ("PUT", "") else None
        assert control.member.at("2.25").send(method, f"{path}{where}", body).status == 404
        assert control.stranger.send(method, f"{path}{where}", body).status == 404
    assert control.member.at("2.26").get(f"{path}/red").status == 204
