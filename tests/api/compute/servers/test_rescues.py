# SPDX-License-Identifier: Apache-2.0
"""Rescue, a new password, a crash dump: for servers that do not work."""

import logging
import shutil
from pathlib import Path
from typing import Any

import orjson
import pytest
import sqlalchemy as sa

from kilonova.cli.wiring.control import image_id
from kilonova.compute.virt.fake.guests import GuestFile, SimulatedGuest
from kilonova.db.core import tables as t
from support.api_client import Client
from support.control import IMAGE, Control, NewControl, start_control
from support.glance_stand_in import image_cloud

RESCUE_IMAGE = image_id("rescue-disk")
SCENARIO = """
images: [{name: cirros}, {name: rescue-disk}]
hosts:
  - {name: node1, vcpus: 8, memory_mib: 16384}
"""


@pytest.fixture
def control(new_control: NewControl) -> Control:
    return new_control(scenario=SCENARIO)


def act(client: Client, uuid: str, **body: Any) -> Any:
    return client.post(f"/servers/{uuid}/action", body)


def shown(control: Control, uuid: str) -> dict[str, Any]:
    control.settle()
    server: dict[str, Any] = control.member.get(f"/servers/{uuid}").body["server"]
    return server


def guest(control: Control, uuid: str) -> SimulatedGuest:
    files = (control.folder / "hypervisors").glob("*.json")
    places = [place for file in files for each, place in GuestFile("", file).places.items() if each == uuid]
    (found,) = [place.guest for place in places]
    assert found is not None
    return found


@pytest.mark.parametrize("state", ["active", "stopped"])
def test_a_server_is_rescued_and_comes_back(control: Control, state: str) -> None:
    uuid = control.boot()["id"]
    if state == "stopped":
        act(control.member, uuid, **{"os-stop": None})
        control.settle()
    answer = act(control.member, uuid, rescue={"adminPass": "correct horse", "rescue_image_ref": RESCUE_IMAGE})
    assert (answer.status, answer.body) == (200, {"adminPass": "correct horse"})
    server = shown(control, uuid)
    assert (server["status"], server["OS-EXT-STS:power_state"], server["image"]["id"]) == ("RESCUE", 1, IMAGE)
    found = guest(control, uuid)
    assert (found.image_ref, found.rescue_image_ref) == (IMAGE, RESCUE_IMAGE)
    output = act(control.member, uuid, **{"os-getConsoleOutput": {}}).body["output"]
    assert f"rescue from image {RESCUE_IMAGE}" in output
    for refused in ({"rescue": None}, {"os-stop": None}, {"reboot": {"type": "HARD"}}, {"reboot": {"type": "SOFT"}}):
        answer = act(control.member, uuid, **refused)
        assert (answer.status, answer.fault[1].partition(" while ")[2]) == (409, "it is in vm_state rescued")
    control.check()
    answer = act(control.member, uuid, unrescue=None)
    assert (answer.status, answer.raw) == (202, b"")
    assert shown(control, uuid)["status"] == "ACTIVE"
    assert guest(control, uuid).rescue_image_ref is None
    actions = control.member.get(f"/servers/{uuid}/os-instance-actions").body["instanceActions"]
    assert [each["action"] for each in actions][:2] == ["unrescue", "rescue"]
    for action, event in zip(actions, ("compute_unrescue_instance", "compute_rescue_instance"), strict=False):
        events = control.member.get(f"/servers/{uuid}/os-instance-actions/{action['request_id']}")
        assert [each["event"] for each in events.body["instanceAction"]["events"]] == [event]
    control.check()


def test_without_a_word_it_is_its_own_image_and_a_password_that_is_told(control: Control) -> None:
    uuid = control.boot()["id"]
    answer = act(control.member, uuid, rescue=None)
    assert answer.status == 200
    assert len(answer.body["adminPass"]) >= 12
    assert shown(control, uuid)["status"] == "RESCUE"
    assert guest(control, uuid).rescue_image_ref == IMAGE
    assert control.member.delete(f"/servers/{uuid}").status == 204
    control.settle()
    assert control.check() == {}


def test_a_rescue_that_cannot_be(control: Control) -> None:
    uuid = control.boot()["id"]
    before = control.everything()
    asked: list[tuple[Any, str]] = [
        ({"rescue_image_ref": "4f2a6b9e-0000-4000-8000-000000000000"}, "rescue_image_ref"),
        ({"rescue_image_ref": "cirros"}, "rescue_image_ref"),
        ({"rescue_image_ref": None}, "rescue_image_ref"),
        ({"adminPass": 7}, "adminPass"),
        ({"admin_pass": "x"}, "admin_pass"),
        ("now", "rescue"),
    ]
    for given, field in asked:
        answer = act(control.member, uuid, rescue=given)
        assert answer.status == 400, given
        assert field in answer.fault[1]
    assert control.everything() == before


def test_a_password_is_set_inside_a_server_that_runs(control: Control) -> None:
    uuid = control.boot()["id"]
    answer = act(control.member, uuid, changePassword={"adminPass": "new"})
    assert (answer.status, answer.raw) == (202, b"")
    assert shown(control, uuid)["status"] == "ACTIVE"
    assert guest(control, uuid).console[-1].what == "The password of the administrator was set"
    for bad in ({}, {"adminPass": None}, {"password": "x"}, None):
        assert act(control.member, uuid, changePassword=bad).status == 400
    act(control.member, uuid, **{"os-stop": None})
    control.settle()
    assert act(control.member, uuid, changePassword={"adminPass": "new"}).status == 409
    action = control.member.get(f"/servers/{uuid}/os-instance-actions").body["instanceActions"][1]
    assert action["action"] == "changePassword"


def test_a_crash_dump_leaves_a_server_as_it_is(control: Control) -> None:
    uuid = control.boot()["id"]
    answer = act(control.member, uuid, trigger_crash_dump=None)
    assert (answer.status, answer.raw) == (202, b"")
    assert shown(control, uuid)["status"] == "ACTIVE"
    assert guest(control, uuid).console[-1].what == "Non-maskable interrupt: a crash dump was written"
    older = Client(control.process.application, "alice:wonder", "2.16")
    assert act(older, uuid, trigger_crash_dump=None).status == 404
    assert act(control.member, uuid, trigger_crash_dump={}).status == 400
    act(control.member, uuid, **{"os-stop": None})
    control.settle()
    assert act(control.member, uuid, trigger_crash_dump=None).status == 409
    action = control.member.get(f"/servers/{uuid}/os-instance-actions").body["instanceActions"][1]
    assert action["action"] == "trigger_crash_dump"


def test_no_password_is_kept_or_logged(control: Control, caplog: pytest.LogCaptureFixture) -> None:
    uuid = control.boot()["id"]
    with caplog.at_level(logging.DEBUG):
        act(control.member, uuid, rescue={"adminPass": "correct-horse"})
        control.settle()
        act(control.member, uuid, unrescue=None)
        control.settle()
        act(control.member, uuid, changePassword={"adminPass": "correct-horse"})
        control.settle()
    assert "correct-horse" not in caplog.text
    with control.process.database.read() as connection:
        for table in t.metadata.sorted_tables:
            rows = [list(map(str, row)) for row in connection.execute(sa.select(table))]
            assert b"correct-horse" not in orjson.dumps(rows), table.name


def test_the_host_fetches_the_rescue_image_by_ticket_and_without_it_the_guest_stays_as_it_is(
    sqlite_template: Path, tmp_path: Path
) -> None:
    shutil.copy(sqlite_template, tmp_path / "kilonova.db")
    with image_cloud({IMAGE: b"own disk", RESCUE_IMAGE: b"rescue disk"}) as cloud:
        control = start_control(tmp_path, scenario=SCENARIO, more=cloud.options)
        cloud.application = control.process.application
        control.add_flavor()
        uuid = control.boot()["id"]
        asked = {"rescue_image_ref": RESCUE_IMAGE}
        cloud.glance.lost.add(RESCUE_IMAGE)
        assert act(control.member, uuid, rescue=asked).status == 200
        server = shown(control, uuid)
        assert server["status"] == "ERROR"
        assert f"Image {RESCUE_IMAGE} cannot be transferred" in server["fault"]["message"]
        assert guest(control, uuid).rescue_image_ref is None
        cloud.glance.lost.clear()
        assert act(control.member, uuid, rescue=asked).status == 200
        assert shown(control, uuid)["status"] == "RESCUE"
        assert cloud.glance.reads[-1] == RESCUE_IMAGE
        base = tmp_path / "hypervisors" / "_base"
        assert sorted(path.read_bytes() for path in base.glob("*")) == [b"own disk", b"rescue disk"]
        assert act(control.member, uuid, unrescue=None).status == 202
        control.check()
        control.process.close()
