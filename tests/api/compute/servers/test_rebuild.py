# SPDX-License-Identifier: Apache-2.0
"""Rebuild through the API: what each microversion takes and shows, what is refused, and what comes of it."""

from collections.abc import Iterator
from typing import Any

import pytest
import sqlalchemy as sa

from kilonova.cli.wiring.control import image_id
from kilonova.db.core import tables as t
from support.api_client import Answer, Client
from support.control import IMAGE, Control, NewControl

OTHER, OLD_CPU, PINNED = (image_id(name) for name in ("fedora", "old-cpu", "pinned"))
_SCENARIO = """
images:
  - {name: cirros}
  - {name: fedora}
  - {name: old-cpu, properties: {hw_architecture: ppc64le}}
  - {name: pinned, properties: {hw_numa_nodes: "1"}}
hosts:
  - {name: node1, vcpus: 8, memory_mib: 16384}
  - {name: node2, vcpus: 8, memory_mib: 16384}
"""


@pytest.fixture(scope="module")
def cloud(new_shared_control: NewControl) -> Iterator[Control]:
    started = new_shared_control(scenario=_SCENARIO)
    yield started
    started.check()


@pytest.fixture(scope="module")
def uuid(cloud: Control) -> str:
    return str(cloud.boot()["id"])


def rebuild(cloud: Control, uuid: str, client: Client | None = None, **asked: Any) -> Answer:
    body = {"rebuild": {"imageRef": IMAGE, **asked}}
    answer = (client or cloud.member).post(f"/servers/{uuid}/action", body)
    cloud.settle()
    return answer


def at(cloud: Control, version: str) -> Client:
    return Client(cloud.process.application, "alice:wonder", version)


def shown(cloud: Control, uuid: str) -> dict[str, Any]:
    server: dict[str, Any] = cloud.admin.get(f"/servers/{uuid}").body["server"]
    return server


def test_a_server_is_rebuilt_and_shown(cloud: Control, uuid: str) -> None:
    made = cloud.admin.post("/os-keypairs", {"keypair": {"name": "k", "public_key": _KEY, "user_id": "alice"}})
    assert made.status == 201, made.body
    given = {
        "name": "anew",
        "description": "second life",
        "metadata": {"a": "1"},
        "key_name": "k",
        "user_data": "aGk=",
        "hostname": "second.example",
        "accessIPv4": "192.0.2.7",
        "OS-DCF:diskConfig": "AUTO",
        "adminPass": "secret",
    }
    answer = rebuild(cloud, uuid, imageRef=OTHER, **given)
    assert answer.status == 202, answer.body
    begun = answer.body["server"]
    assert answer.headers["location"].endswith(f"/servers/{uuid}")
    assert begun["status"] in {"REBUILD", "ACTIVE"}, begun  # a simulated host may have done it by then
    assert begun["image"]["id"] == OTHER
    assert (begun["adminPass"], begun["user_data"], begun["server_groups"]) == ("secret", "aGk=", [])
    after = shown(cloud, uuid)
    assert (after["status"], after["name"], after["description"]) == ("ACTIVE", "anew", "second life")
    assert (after["metadata"], after["key_name"], after["accessIPv4"]) == ({"a": "1"}, "k", "192.0.2.7")
    assert (after["OS-EXT-SRV-ATTR:hostname"], after["OS-DCF:diskConfig"]) == ("second.example", "AUTO")
    assert (after["OS-EXT-SRV-ATTR:user_data"], after["image"]["id"]) == ("aGk=", OTHER)

    listed = cloud.member.get(f"/servers/{uuid}/os-instance-actions").body["instanceActions"]
    assert listed[0]["action"] == "rebuild"
    action = cloud.member.get(f"/servers/{uuid}/os-instance-actions/{listed[0]['request_id']}").body["instanceAction"]
    events = {event["event"]: event["result"] for event in action["events"]}
    assert events == {"rebuild_server": "Success", "compute_rebuild_instance": "Success"}

    rebuild(cloud, uuid, key_name=None, user_data=None, description=None)
    after = shown(cloud, uuid)
    assert (after["key_name"], after["OS-EXT-SRV-ATTR:user_data"], after["description"]) == (None, None, None)
    assert (after["name"], after["image"]["id"]) == ("anew", IMAGE)


@pytest.mark.parametrize(
    ("field", "value", "since"),
    [
        ("description", "d", "2.19"),
        ("key_name", None, "2.54"),
        ("user_data", "aGk=", "2.57"),
        ("trusted_image_certificates", None, "2.63"),
        ("hostname", "h2", "2.90"),
        ("hostname", "h2.example.org", "2.94"),
    ],
)
def test_what_comes_with_a_microversion(cloud: Control, uuid: str, field: str, value: Any, since: str) -> None:
    before = f"2.{int(since[2:]) - 1}"
    assert rebuild(cloud, uuid, at(cloud, before), **{field: value}).status == 400
    assert rebuild(cloud, uuid, at(cloud, since), **{field: value}).status == 202


def test_certificates_are_kept_until_a_rebuild_says_otherwise(cloud: Control) -> None:
    first, second = ["0b5d2c72-12cc-4ba6-a8d7-3ff5cc1d8cb8"], ["b", "a"]
    uuid = cloud.boot(trusted_image_certificates=first)["id"]
    for asked, expected in (
        ({}, first),
        ({"trusted_image_certificates": second}, second),
        ({"name": "anew"}, second),
        ({"trusted_image_certificates": None}, None),
    ):
        answer = rebuild(cloud, uuid, at(cloud, "2.63"), **asked)
        assert (answer.status, answer.body["server"]["trusted_image_certificates"]) == (202, expected)
        assert at(cloud, "2.63").get(f"/servers/{uuid}").body["server"]["trusted_image_certificates"] == expected
    assert "trusted_image_certificates" not in at(cloud, "2.62").get(f"/servers/{uuid}").body["server"]
    assert cloud.ask(trusted_image_certificates=second, client=at(cloud, "2.62")).status == 400


def test_administrators_are_shown_user_data_under_one_name(cloud: Control, uuid: str) -> None:
    for version in ("2.75", "2.104"):
        shown = rebuild(cloud, uuid, cloud.admin.at(version)).body["server"]
        assert {"user_data", "OS-EXT-SRV-ATTR:host"} <= shown.keys()
        assert "OS-EXT-SRV-ATTR:user_data" not in shown
        cloud.settle()


def test_the_answer_by_microversion(cloud: Control, uuid: str) -> None:
    plain = {
        "OS-DCF:diskConfig", "accessIPv4", "accessIPv6", "addresses", "adminPass", "created", "flavor", "hostId", "id",
        "image", "links", "metadata", "name", "progress", "status", "tenant_id", "updated", "user_id",
    }  # fmt: skip
    more: set[str] = set()
    for version, added in (
        ("2.1", set()),
        ("2.9", {"locked"}),
        ("2.19", {"description"}),
        ("2.26", {"tags"}),
        ("2.54", {"key_name"}),
        ("2.57", {"user_data"}),
        ("2.63", {"trusted_image_certificates"}),
        ("2.71", {"server_groups"}),
        ("2.73", {"locked_reason"}),
    ):
        more |= added
        found = rebuild(cloud, uuid, at(cloud, version)).body["server"]
        assert set(found) == plain | more, version
    whole = rebuild(cloud, uuid, at(cloud, "2.75")).body["server"]
    assert {"OS-EXT-STS:vm_state", "OS-EXT-AZ:availability_zone", "config_drive"} <= set(whole)


@pytest.mark.parametrize(
    ("asked", "status", "message"),
    [
        ({"imageRef": "3f0b7f2e-0a38-4d0a-bd0c-0a6b5a2f5f0e"}, 400, "imageRef"),
        ({"imageRef": "nonsense"}, 400, "imageRef"),
        ({"imageRef": PINNED}, 400, "NUMA topology"),
        ({"preserve_ephemeral": True}, 400, "preserve_ephemeral"),
        ({"trusted_image_certificates": []}, 400, "trusted_image_certificates"),
        ({"trusted_image_certificates": ["same", "same"]}, 400, "trusted_image_certificates"),
        ({"key_name": "none"}, 400, "key_name"),
        ({"user_data": "%"}, 400, "user_data"),
        ({"personality": []}, 400, "personality"),
        ({"name": " "}, 400, "name"),
        ({"metadata": {str(number): "" for number in range(129)}}, 403, "metadata items exceeds 128"),
    ],
)
def test_what_is_refused(cloud: Control, uuid: str, asked: Any, status: int, message: str) -> None:
    before = cloud.everything()
    answer = rebuild(cloud, uuid, **asked)
    assert answer.status == status, answer.body
    assert message in str(answer.body)
    assert cloud.everything() == before


def test_personality_is_refused_before_it_was_removed(cloud: Control, uuid: str) -> None:
    answer = rebuild(cloud, uuid, at(cloud, "2.56"), personality=[{"path": "/a", "contents": ""}])
    assert (answer.status, "File injection" in str(answer.body)) == (400, True)


def test_an_image_that_no_host_of_its_kind_can_run(cloud: Control) -> None:
    uuid = cloud.boot()["id"]
    assert rebuild(cloud, uuid, imageRef=OLD_CPU).status == 202
    failed = shown(cloud, uuid)
    assert (failed["status"], failed["image"]["id"]) == ("ERROR", IMAGE)
    assert failed["fault"]["message"].startswith("No valid host was found.")
    assert rebuild(cloud, uuid).status == 202
    assert shown(cloud, uuid)["status"] == "ACTIVE"


def test_others_locked_and_host_away(cloud: Control) -> None:
    uuid = cloud.boot()["id"]
    assert rebuild(cloud, uuid, cloud.stranger).status == 404
    host = shown(cloud, uuid)["OS-EXT-SRV-ATTR:host"]
    found = cloud.admin.get(f"/os-services?host={host}").body["services"][0]["id"]
    cloud.admin.put(f"/os-services/{found}", {"forced_down": True})
    answer = rebuild(cloud, uuid)
    cloud.admin.put(f"/os-services/{found}", {"forced_down": False})
    assert (answer.status, "is down" in str(answer.body)) == (409, True)
    lock = sa.update(t.instances).where(t.instances.c.uuid == uuid)
    cloud.process.database.write(lambda tx: tx.execute(lock.values(locked_by="owner")))
    assert (rebuild(cloud, uuid).status, "locked" in str(rebuild(cloud, uuid).body)) == (409, True)


_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGJ0xv7nH3QyW3D5u3kPmqf8m0B4mO3y5B0s1mFhJt5Q alice@wonder"
