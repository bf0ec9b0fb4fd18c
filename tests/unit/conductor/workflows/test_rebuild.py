# SPDX-License-Identifier: Apache-2.0
"""The guest of a server is made anew where it is; what that fails at leaves what can be tried again."""

from dataclasses import replace
from pathlib import Path

import pytest
import sqlalchemy as sa

from kilonova.compute.virt.fake.guests import GuestFile, SimulatedGuest
from kilonova.db import request_specs
from kilonova.db.core import tables as t
from kilonova.errors import ConcurrentUpdate, UnexpectedTaskState
from kilonova.messaging.messages import RebuildGuest
from kilonova.model.image import Image
from kilonova.model.instance import PowerState, TaskState, VmState
from kilonova.model.request_spec import StoredRequest
from support.cell import IMAGE, Cell, NewCell, Running, asker, host
from support.folder_images import FolderImages

OTHER = Image("0c4c4a3a-42d5-4a6a-8a6b-16f1d7a0b7a4", "fedora", properties={"os_distro": "fedora"})
#: Which no host can make, since they are all of another architecture.
FOREIGN = replace(OTHER, properties={"hw_architecture": "ppc64le"})


def guest_on(cell: Cell, name: str, uuid: str) -> SimulatedGuest | None:
    return GuestFile(name, cell.folder / "hypervisors" / f"{name}.json").guest(uuid)


def request_of(cell: Cell, uuid: str) -> StoredRequest:
    with cell.database.read() as connection:
        return request_specs.get_many(connection, [cell.instance(uuid)])[uuid]


def count_of_requests(cell: Cell) -> int:
    with cell.database.read() as connection:
        return int(connection.execute(sa.select(sa.func.count()).select_from(t.request_specs)).scalar_one())


def test_a_server_gets_another_image_name_key_and_user_data(running: Running) -> None:
    cell, uuid = running
    before = guest_on(cell, "node1", uuid)
    values = {"name": "anew", "metadata": {"a": "b"}, "key_name": "other", "description": "2", "hostname": "h2"}
    cell.rebuild(uuid, OTHER, user_data="aGk=", **values)
    begun = cell.instance(uuid)
    assert (begun.task_state, begun.image_ref, begun.name) == (TaskState.REBUILDING, OTHER.id, "anew")
    cell.bus.run()
    server = cell.instance(uuid)
    assert (server.vm_state, server.task_state, server.host) == (VmState.ACTIVE, None, "node1")
    assert {name: getattr(server, name) for name in values} == values
    assert server.image_properties == OTHER.properties
    assert (request_of(cell, uuid).user_data, request_of(cell, uuid).spec.image) == ("aGk=", OTHER)
    after = guest_on(cell, "node1", uuid)
    assert before is not None
    assert after is not None
    assert (before.image_ref, after.image_ref) == (IMAGE.id, OTHER.id)
    assert count_of_requests(cell) == 1
    cell.check()


def test_servers_of_one_request_keep_theirs(cell_of: NewCell) -> None:
    cell = cell_of(host("node1"))
    first, second = cell.boot(2)
    cell.bus.run()
    cell.rebuild(first, OTHER)
    cell.bus.run()
    assert request_of(cell, second).spec.image == IMAGE
    assert count_of_requests(cell) == 2
    cell.rebuild(second, OTHER)
    cell.bus.run()
    assert count_of_requests(cell) == 2
    cell.check()


def test_a_server_that_is_off_stays_off(running: Running) -> None:
    cell, uuid = running
    cell.power(uuid, "stop")
    cell.bus.run()
    cell.rebuild(uuid, OTHER)
    cell.bus.run()
    server = cell.instance(uuid)
    assert (server.vm_state, server.power_state) == (VmState.STOPPED, PowerState.SHUTDOWN)
    cell.check()


def test_the_same_image_asks_no_rule(running: Running) -> None:
    cell, uuid = running
    asked = count_of_decisions(cell)
    cell.rebuild(uuid)
    cell.bus.run()
    assert cell.instance(uuid).vm_state is VmState.ACTIVE
    assert count_of_decisions(cell) == asked
    cell.rebuild(uuid, OTHER)
    cell.bus.run()
    assert count_of_decisions(cell) == asked + 1
    cell.check()


def count_of_decisions(cell: Cell) -> int:
    with cell.database.read() as connection:
        return int(connection.execute(sa.select(sa.func.count()).select_from(t.decisions)).scalar_one())


@pytest.mark.parametrize("image", [FOREIGN, replace(OTHER, properties={"trait:CUSTOM_GOLD": "required"})])
def test_an_image_that_does_not_suit_the_host(running: Running, image: Image) -> None:
    cell, uuid = running
    guest = guest_on(cell, "node1", uuid)
    cell.rebuild(uuid, image, key_name="other")
    cell.bus.run()
    server = cell.instance(uuid)
    assert (server.vm_state, server.task_state) == (VmState.ERROR, None)
    assert server.fault is not None
    assert server.fault.message.startswith("No valid host was found.")
    assert (server.image_ref, server.key_name, request_of(cell, uuid).spec.image) == (IMAGE.id, None, IMAGE)
    assert guest_on(cell, "node1", uuid) == guest
    assert count_of_requests(cell) == 1
    cell.rebuild(uuid, OTHER)
    cell.bus.run()
    assert cell.instance(uuid).vm_state is VmState.ACTIVE
    assert cell.instance(uuid).fault is None
    cell.check()


def test_a_host_that_fails_leaves_the_guest_and_can_be_asked_again(cell_of: NewCell) -> None:
    cell = cell_of(host("node1"))
    (uuid,) = cell.boot()
    cell.bus.run()
    cell = cell.restart(failing_spawns=1)
    guest = guest_on(cell, "node1", uuid)
    cell.rebuild(uuid, OTHER, user_data="aGk=")
    cell.bus.run()
    server = cell.instance(uuid)
    assert (server.vm_state, server.image_ref, request_of(cell, uuid).user_data) == (VmState.ERROR, IMAGE.id, None)
    assert guest_on(cell, "node1", uuid) == guest
    cell.check()
    cell.rebuild(uuid, OTHER)
    cell.bus.run()
    assert cell.instance(uuid).vm_state is VmState.ACTIVE
    cell.check()


def test_one_at_a_time(running: Running) -> None:
    cell, uuid = running
    cell.rebuild(uuid, OTHER)
    with pytest.raises(UnexpectedTaskState):
        cell.rebuild(uuid)
    cell.bus.run()
    cell.check()


def test_what_was_read_before_another_rebuild_is_not_taken(running: Running) -> None:
    cell, uuid = running
    seen, request = cell.instance(uuid), request_of(cell, uuid)
    cell.rebuild(uuid, OTHER)
    cell.bus.run()
    with pytest.raises(ConcurrentUpdate):
        cell.conductor.operations.rebuilds.rebuild(
            uuid, seen.flavor, request, IMAGE, asker("req-2"), user_data=None, values={}
        )
    assert cell.instance(uuid).task_state is None
    cell.check()


def test_a_delete_ends_it(running: Running) -> None:
    cell, uuid = running
    cell.rebuild(uuid, OTHER)
    cell.delete(uuid)
    cell.bus.run()
    assert cell.find(uuid) is None
    cell.check()


def test_the_order_may_be_repeated(running: Running) -> None:
    cell, uuid = running
    cell.rebuild(uuid, OTHER)
    cell.bus.run()
    (sent,) = [message for message in cell.bus.sent if isinstance(message, RebuildGuest)]
    made = guest_on(cell, "node1", uuid)
    cell.drivers["node1"].rebuild(sent.guest, power_on=True)
    assert guest_on(cell, "node1", uuid) == made


def test_the_disk_is_made_anew_of_the_same_image(cell_of: NewCell, tmp_path: Path) -> None:
    images = FolderImages(tmp_path / "images")
    images.add(IMAGE.id, b"what servers are made of")
    cell = cell_of(host("node1"), images=images)
    (uuid,) = cell.boot()
    cell.bus.run()
    cell.rebuild(uuid)
    cell.bus.run()
    assert [disk.name for disk in (cell.folder / "hypervisors" / "disks" / "node1").iterdir()] == [uuid]
    cell.check()


def test_a_soft_delete_keeps_the_guest_that_the_server_says_it_has(running: Running) -> None:
    """The host makes the guest of the other image in any case, before it powers it off."""
    cell, uuid = running
    cell.rebuild(uuid, OTHER)
    while not any(isinstance(message, RebuildGuest) for message in cell.bus.sent):
        assert cell.bus.step()
    cell.delete(uuid, soft=True)
    cell.work_off()
    guest = guest_on(cell, "node1", uuid)
    server = cell.find(uuid)
    assert server is not None
    assert guest is not None
    assert (server.vm_state, server.image_ref, guest.image_ref) == (VmState.SOFT_DELETED, OTHER.id, OTHER.id)
    assert (guest.state, count_of_requests(cell)) == (PowerState.SHUTDOWN, 1)
    cell.check()
