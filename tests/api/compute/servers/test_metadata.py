# SPDX-License-Identifier: Apache-2.0
"""Metadata of servers: rows 8 to 13 of the API of servers."""

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
    return f"/servers/{control.boot(metadata={'a': '1', 'b': '2'})['id']}/metadata"


def set_state(control: Control, path: str, **values: Any) -> None:
    uuid = path.split("/")[2]
    control.process.database.write(lambda tx: instances.change(tx, uuid, **values))


def test_merge_replace_and_single_items(control: Control, path: str) -> None:
    member = control.member
    assert member.get(path).body == {"metadata": {"a": "1", "b": "2"}}
    assert member.post(path, {"metadata": {"b": "3", "c d.e:f": ""}}).body == {
        "metadata": {"a": "1", "b": "3", "c d.e:f": ""}
    }
    assert member.get(f"{path}/{quote('c d.e:f')}").body == {"meta": {"c d.e:f": ""}}
    assert member.put(f"{path}/x", {"meta": {"x": "ü"}}).body == {"meta": {"x": "ü"}}
    answer = member.delete(f"{path}/a")
    assert (answer.status, answer.raw) == (204, b"")
    assert member.get(path).body == {"metadata": {"b": "3", "c d.e:f": "", "x": "ü"}}
    assert member.get(path.removesuffix("/metadata")).body["server"]["metadata"]["x"] == "ü"
    assert member.put(path, {"metadata": {"only": "this"}}).body == {"metadata": {"only": "this"}}
    assert member.put(path, {"metadata": {}}).body == {"metadata": {}}
    assert member.get(path).body == {"metadata": {}}


def test_what_is_not_there(control: Control, path: str) -> None:
    nowhere = "/servers/5b674f73-0000-4000-8000-000000000000/metadata"
    for method, where, body in (
        ("GET", f"{path}/zz", None),
        ("DELETE", f"{path}/zz", None),
        ("GET", nowhere, None),
        ("POST", nowhere, {"metadata": {"a": "b"}}),
        ("PUT", f"{nowhere}/a", {"meta": {"a": "b"}}),
        ("PUT", f"{nowhere}/b", {"meta": {"a": "b"}}),
        ("DELETE", f"{nowhere}/a", None),
    ):
        assert control.member.send(method, where, body).status == 404, (method, where)
    for method, where, body in (("GET", path, None), ("PUT", f"{path}/a", {"meta": {"a": "b"}})):
        assert control.stranger.send(method, where, body).status == 404


@pytest.mark.parametrize(
    ("method", "where", "body", "word"),
    [
        ("POST", "", {"metadata": {"k": None}}, "metadata.k"),
        ("POST", "", {"metadata": {"k": 1}}, "metadata.k"),
        ("POST", "", {"metadata": {"": "x"}}, "metadata"),
        ("POST", "", {"metadata": {"k" * 256: "x"}}, "metadata"),
        ("POST", "", {"metadata": {"k/": "x"}}, "metadata"),
        ("PUT", "", {"metadata": {"k": "x" * 256}}, "metadata.k"),
        ("PUT", "", {"meta": {}}, "metadata"),
        ("PUT", "", None, ""),
        ("PUT", "/k", {"meta": {"other": "x"}}, "mismatch"),
        ("PUT", "/k", {"meta": {"k": "x", "l": "y"}}, "meta"),
        ("PUT", "/k", {"meta": {}}, "meta"),
        ("PUT", "/k", {"metadata": {"k": "x"}}, "meta"),
    ],
)
def test_bad_bodies(control: Control, path: str, method: str, where: str, body: Any, word: str) -> None:
    answer = control.member.send(method, f"{path}{where}", body)
    assert answer.status == 400
    assert word in answer.fault[1]
    assert control.member.get(path).body == {"metadata": {"a": "1", "b": "2"}}


def test_the_quota(control: Control, path: str) -> None:
    assert control.admin.put("/os-quota-sets/wonder", {"quota_set": {"metadata_items": 3}}).status == 200
    try:
        assert control.member.put(f"{path}/c", {"meta": {"c": "3"}}).status == 200
        for answer in (
            control.member.put(f"{path}/d", {"meta": {"d": "4"}}),
            control.member.post(path, {"metadata": {"d": "4"}}),
            control.member.put(path, {"metadata": dict.fromkeys("wxyz", "")}),
        ):
            assert answer.status == 403
            assert answer.fault[1] == "Maximum number of metadata items exceeds 3"
        assert control.member.put(f"{path}/c", {"meta": {"c": "9"}}).status == 200
        assert control.member.get(path).body == {"metadata": {"a": "1", "b": "2", "c": "9"}}
    finally:
        control.admin.delete("/os-quota-sets/wonder")


@pytest.mark.parametrize("state", sorted(set(VmState) - {VmState.DELETED}))
def test_in_every_state(control: Control, path: str, state: VmState) -> None:
    set_state(control, path, vm_state=state, task_state=TaskState.MIGRATING)
    allowed = state in {VmState.ACTIVE, VmState.PAUSED, VmState.SUSPENDED, VmState.STOPPED}
    for answer in (
        control.member.put(f"{path}/a", {"meta": {"a": "9"}}),
        control.member.post(path, {"metadata": {"a": "9"}}),
        control.member.put(path, {"metadata": {"a": "9"}}),
        control.member.delete(f"{path}/a"),
    ):
        assert answer.status < 300 if allowed else answer.status == 409
    set_state(control, path, vm_state=VmState.ACTIVE, task_state=None)


def test_a_locked_server(control: Control, path: str) -> None:
    set_state(control, path, locked_by="owner")
    assert control.member.post(path, {"metadata": {"c": "3"}}).status == 409
    assert control.member.delete(f"{path}/a").status == 409
    assert control.admin.post(path, {"metadata": {"c": "3"}}).status == 200


def test_a_server_that_never_ran(control: Control) -> None:
    control.add_flavor("9", vcpus=64)
    path = f"/servers/{control.boot(flavorRef='9')['id']}/metadata"
    set_state(control, path, vm_state=VmState.STOPPED)
    answer = control.member.post(path, {"metadata": {"a": "b"}})
    assert (answer.status, "launched_at" in answer.fault[1]) == (409, True)


def test_merges_at_the_same_time_lose_nothing(control: Control, path: str) -> None:
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda key: control.member.post(path, {"metadata": {f"k{key}": "v"}}), range(40)))
        answers += list(pool.map(lambda key: control.member.delete(f"{path}/k{key}"), range(0, 40, 2)))
    assert {answer.status for answer in answers} == {200, 204}
    left = control.member.get(path).body["metadata"]
    assert set(left) == {"a", "b", *(f"k{key}" for key in range(1, 40, 2))}


def test_lists_by_metadata_for_administrators(control: Control) -> None:
    uuid = control.boot(metadata={"role": "web", "n": "1"})["id"]
    control.boot(metadata={"role": "db", "n": "1"})

    def found(query: str) -> list[str]:
        return [each["id"] for each in control.admin.get(f"/servers?all_tenants=1&{query}").body["servers"]]

    assert found("metadata=" + quote('{"role": "web", "n": "1"}')) == [uuid]
    assert found("metadata=" + quote('{"role": "web", "n": "2"}')) == []
    assert found("metadata=" + quote('{"ro\\"le": "web"}')) == []
    assert control.admin.get("/servers?metadata=role").status == 400
    assert control.member.get("/servers?metadata=role").status == 200
