# SPDX-License-Identifier: Apache-2.0
"""Evacuation through the API: who may, what each microversion takes and answers, and what becomes of the host."""

from collections.abc import Iterator
from typing import Any

import pytest
import sqlalchemy as sa

from kilonova.db.core import tables as t
from support.api_client import Answer, Client
from support.control import Control, NewControl

_SCENARIO = """
images: [{name: cirros}]
hosts:
  - {name: node1, vcpus: 8, memory_mib: 8192}
  - {name: node2, vcpus: 8, memory_mib: 16384}
  - {name: node3, vcpus: 8, memory_mib: 12288}
"""


@pytest.fixture(scope="module")
def cloud(new_shared_control: NewControl) -> Iterator[Control]:
    started = new_shared_control(scenario=_SCENARIO)
    yield started
    started.check()


@pytest.fixture
def down(cloud: Control) -> Iterator[str]:
    """A server on node1, which is declared down."""
    uuid = cloud.boot(cloud.admin, availability_zone="nova:node1")["id"]
    force_down(cloud, "node1", down=True)
    yield uuid
    force_down(cloud, "node1", down=False)


def force_down(cloud: Control, host: str, *, down: bool) -> None:
    assert set_down(cloud, host, down=down).status == 200


def set_down(cloud: Control, host: str, *, down: bool) -> Answer:
    found = cloud.admin.get(f"/os-services?host={host}").body["services"][0]["id"]
    return cloud.admin.put(f"/os-services/{found}", {"forced_down": down})


def at(cloud: Control, version: str) -> Client:
    return Client(cloud.process.application, version=version)


def evacuate(cloud: Control, uuid: str, version: str = "2.94", **asked: Any) -> Answer:
    answer = at(cloud, version).post(f"/servers/{uuid}/action", {"evacuate": asked})
    cloud.settle()
    return answer


def shown(cloud: Control, uuid: str) -> dict[str, Any]:
    server: dict[str, Any] = cloud.admin.get(f"/servers/{uuid}").body["server"]
    return server


def test_a_server_leaves_a_host_that_is_down(cloud: Control, down: str) -> None:
    answer = evacuate(cloud, down)
    assert (answer.status, answer.raw) == (200, b"")
    after = shown(cloud, down)
    assert (after["status"], after["OS-EXT-SRV-ATTR:host"], after["OS-EXT-STS:power_state"]) == ("ACTIVE", "node2", 1)
    actions = cloud.admin.get(f"/servers/{down}/os-instance-actions").body["instanceActions"]
    assert actions[0]["action"] == "evacuate"
    one = cloud.admin.get(f"/servers/{down}/os-instance-actions/{actions[0]['request_id']}").body["instanceAction"]
    assert {each["event"]: each["result"] for each in one["events"]} == {
        "rebuild_server": "Success",
        "compute_rebuild_instance": "Success",
    }
    listed = cloud.admin.get(f"/os-migrations?instance_uuid={down}").body["migrations"]
    found = [(each["migration_type"], each["status"], each["source_compute"], each["dest_compute"]) for each in listed]
    assert found == [("evacuation", "completed", "node1", "node2")]
    assert cloud.admin.get(f"/servers/{down}/migrations").body["migrations"] == []


@pytest.mark.parametrize(
    ("version", "asked", "answered"),
    [
        ("2.1", {"onSharedStorage": "False", "adminPass": "secret"}, {"adminPass": "secret"}),
        ("2.13", {"onSharedStorage": False, "host": "node3"}, None),
        ("2.14", {"host": "node3", "adminPass": "secret"}, b""),
        ("2.29", {"host": "node3", "force": True}, b""),
        ("2.67", {"force": False}, b""),
        ("2.95", {"host": "node3"}, b""),
        ("2.104", {}, b""),
    ],
)
def test_what_each_microversion_takes(cloud: Control, down: str, version: str, asked: Any, answered: Any) -> None:
    answer = evacuate(cloud, down, version, **asked)
    assert answer.status == 200, answer.body
    if answered == b"":
        assert answer.raw == b""
    elif answered is None:
        assert len(answer.body["adminPass"]) > 8
    else:
        assert answer.body == answered
    after = shown(cloud, down)
    stopped = version in {"2.95", "2.104"}
    assert (after["status"], after["OS-EXT-STS:power_state"]) == (("SHUTOFF", 4) if stopped else ("ACTIVE", 1))
    assert after["OS-EXT-SRV-ATTR:host"] == asked.get("host", "node2")


@pytest.mark.parametrize(
    ("version", "asked", "status", "message"),
    [
        ("2.94", {"host": "node1"}, 400, "host"),
        ("2.94", {"host": "elsewhere"}, 404, "elsewhere"),
        ("2.94", {"host": "no/host"}, 400, "host"),
        ("2.94", {"force": True, "host": "node2"}, 400, "force"),
        ("2.28", {"force": True, "host": "node2"}, 400, "force"),
        ("2.30", {"force": True}, 400, "force"),
        ("2.14", {"onSharedStorage": False}, 400, "onSharedStorage"),
        ("2.13", {}, 400, "onSharedStorage"),
        ("2.13", {"onSharedStorage": True}, 400, "onSharedStorage"),
    ],
)
def test_what_is_refused(cloud: Control, version: str, asked: Any, status: int, message: str) -> None:
    uuid = _one_on_node1(cloud)
    force_down(cloud, "node1", down=True)
    before = cloud.everything()
    answer = evacuate(cloud, uuid, version, **asked)
    assert (answer.status, message in str(answer.body)) == (status, True), answer.body
    assert cloud.everything() == before
    force_down(cloud, "node1", down=False)


def _one_on_node1(cloud: Control) -> str:
    listed = cloud.admin.get("/servers?all_tenants=1&host=node1&status=ACTIVE").body["servers"]
    return str(listed[0]["id"] if listed else cloud.boot(cloud.admin, availability_zone="nova:node1")["id"])


def test_a_host_that_is_up_is_not_left(cloud: Control) -> None:
    answer = evacuate(cloud, _one_on_node1(cloud))
    assert (answer.status, "still in use" in str(answer.body)) == (400, True)


def test_only_administrators(cloud: Control, down: str) -> None:
    for client, status in ((cloud.member, 404), (cloud.stranger, 404)):
        assert client.post(f"/servers/{down}/action", {"evacuate": {}}).status in {status, 403}


def test_no_lock_is_in_the_way(cloud: Control, down: str) -> None:
    assert cloud.admin.post(f"/servers/{down}/action", {"lock": None}).status == 202
    assert evacuate(cloud, down).status == 200
    assert shown(cloud, down)["status"] == "ACTIVE"


def test_a_server_that_is_paused_stays(cloud: Control) -> None:
    uuid = cloud.boot(cloud.admin, availability_zone="nova:node1")["id"]
    cloud.admin.post(f"/servers/{uuid}/action", {"pause": None})
    cloud.settle()
    force_down(cloud, "node1", down=True)
    assert evacuate(cloud, uuid).status == 409
    force_down(cloud, "node1", down=False)


def test_a_host_with_guests_that_left_stays_down(cloud: Control, down: str) -> None:
    evacuate(cloud, down)
    table = t.server_migrations
    mine = sa.update(table).where(table.c.instance_uuid == down)
    cloud.process.database.write(lambda tx: tx.execute(mine.values(status="done")))
    refused = set_down(cloud, "node1", down=False)
    assert (refused.status, "evacuated" in str(refused.body)) == (400, True)
    cloud.process.database.write(lambda tx: tx.execute(mine.values(status="completed")))
