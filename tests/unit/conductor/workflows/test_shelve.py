# SPDX-License-Identifier: Apache-2.0
"""Shelved servers whose host is down, whose guest is paused, or whose image is no longer needed."""

from collections.abc import Callable
from typing import Any

import pytest

from kilonova.db import instance_actions
from kilonova.model.image_data import ImageData
from kilonova.model.instance import PowerState, VmState
from support.absent_hosts import come_back, lose, vanish_after, vanish_before
from support.cell import Cell, Killed, NewCell, host
from support.folder_images import FolderImages
from support.shelved import booted, own, rest, shelved


def test_a_server_is_offloaded_from_a_host_that_is_away_and_its_guest_goes_later(
    cell_of: NewCell, images: FolderImages
) -> None:
    cell = cell_of(host("a"), host("b"), images=images)
    (uuid,) = booted(cell, force_host="a")
    shelved(cell, uuid, offload=False)
    cell.bus.cut_off = {"a"}
    cell.offload(uuid)
    cell.work_off()
    assert cell.instance(uuid).vm_state is VmState.SHELVED_OFFLOADED
    cell.unshelve(uuid, "b")
    cell.work_off()
    assert cell.instance(uuid).host == "b"
    cell.reconnect()
    rest(cell)
    assert own(images) == []


@pytest.mark.parametrize(("before", "state"), [("pause", VmState.PAUSED), ("suspend", VmState.SUSPENDED)])
def test_a_guest_that_stands_still_is_as_it_was_when_its_image_cannot_be_made(
    cell_of: NewCell, images: FolderImages, before: str, state: VmState
) -> None:
    cell = cell_of(host("a", failing_snapshots=1), images=images)
    (uuid,) = booted(cell)
    cell.power(uuid, before)
    rest(cell)
    shelved(cell, uuid)
    assert (cell.instance(uuid).vm_state, own(images)) == (state, [])
    shelved(cell, uuid)
    assert cell.instance(uuid).vm_state is VmState.SHELVED_OFFLOADED
    cell.unshelve(uuid)
    rest(cell)
    assert cell.instance(uuid).power_state is PowerState.RUNNING


def test_an_image_of_an_earlier_shelve_goes_with_the_next(cell_of: NewCell, images: FolderImages) -> None:
    """A server that was soft-deleted while it was shelved is restored as active, and can be shelved again."""
    cell = cell_of(host("a"), images=images)
    (uuid,) = booted(cell)
    shelved(cell, uuid, offload=False)
    cell.delete(uuid, soft=True)
    rest(cell)
    cell.restore(uuid)
    rest(cell)
    shelved(cell, uuid)
    assert len(own(images)) == 1


@pytest.mark.parametrize("fails", ["no host", "all hosts"])
@pytest.mark.parametrize("act", ["shelve", "create_image", "create_backup"])
def test_a_guest_that_an_evacuation_leaves_where_it_is_keeps_no_copy_of_its_disk(
    cell_of: NewCell, images: FolderImages, act: str, fails: str
) -> None:
    cell = cell_of(host("a"), host("b", vcpus=1 if fails == "all hosts" else 0, failing_spawns=-1), images=images)
    (uuid,) = booted(cell, force_host="a")
    getattr(cell, act)(uuid)
    copies = cell.folder / "hypervisors" / "disks" / "a" / "copies"
    while not list(copies.glob("*")):
        assert cell.bus.step()
    cell.evacuate(uuid)
    rest(cell)
    assert (cell.instance(uuid).vm_state, cell.instance(uuid).host) == (VmState.ERROR, "a")
    assert (list(copies.glob("*")), own(images)) == ([], [])


@pytest.mark.parametrize("step", range(14))
@pytest.mark.parametrize("before", [None, "suspend", "stop"])
def test_a_soft_delete_while_a_server_is_shelved(
    cell_of: NewCell, images: FolderImages, before: str | None, step: int
) -> None:
    """Also of one whose guest need not be powered off first."""
    cell = cell_of(host("a"), images=images)
    (uuid,) = booted(cell)
    if before is not None:
        cell.power(uuid, before)
        rest(cell)
    cell.shelve(uuid)
    for _ in range(step):
        cell.bus.step()
    cell.delete(uuid, soft=True)
    rest(cell)
    server = cell.find(uuid)
    assert server is None or server.vm_state is VmState.SOFT_DELETED
    if server is not None:
        cell.restore(uuid)
        rest(cell)
        assert cell.instance(uuid).vm_state in {VmState.ACTIVE, VmState.SHELVED}
        cell.delete(uuid)
        rest(cell)
    assert own(images) == []


@pytest.mark.parametrize("step", range(4))
@pytest.mark.parametrize("soft", [True, False])
def test_a_delete_while_a_shelved_server_leaves_its_host(
    cell_of: NewCell, images: FolderImages, step: int, *, soft: bool
) -> None:
    cell = cell_of(host("a"), images=images)
    (uuid,) = booted(cell)
    shelved(cell, uuid, offload=False)
    cell.offload(uuid)
    for _ in range(step):
        cell.bus.step()
    cell.delete(uuid, soft=soft)
    rest(cell)
    server = cell.find(uuid)
    assert server is None or (soft and server.vm_state is VmState.SOFT_DELETED)


@pytest.mark.parametrize("makes", [Cell.shelve, Cell.create_image, Cell.create_backup])
def test_a_host_that_dies_when_the_image_has_its_data_drops_the_copy(
    cell_of: NewCell, images: FolderImages, makes: Callable[..., None]
) -> None:
    cell = cell_of(host("a"), images=images)
    (uuid,) = booted(cell)

    def die(*_: object) -> None:
        raise Killed

    cell.drivers["a"].hypervisor.disks.copies.note_brought = die
    makes(cell, uuid)
    with pytest.raises(Killed):
        cell.bus.run()
    cell = cell.restart()
    cell.conductor.process_lease.enter(cell.announce)
    rest(cell)
    (image_id,) = own(images)
    assert images.all()[image_id]["data"] == b"what servers are made of"
    cell.database.close()


def test_a_host_is_told_in_which_format_the_image_is_to_be(cell_of: NewCell, images: FolderImages) -> None:
    cell = cell_of(host("a"), images=images)
    (uuid,) = booted(cell)
    upload, told = cell.drivers["a"].upload_snapshot, []

    def watched(uuid: str, image: ImageData, monitor: Any) -> None:
        told.append(image.disk_format)
        upload(uuid, image, monitor)

    cell.drivers["a"].upload_snapshot = watched
    cell.create_image(uuid)
    rest(cell)
    (image_id,) = own(images)
    assert told == [images.all()[image_id]["disk_format"]] == ["raw"]


@pytest.mark.parametrize("vanish", [vanish_before, vanish_after])
@pytest.mark.parametrize("step", ["stop", "snapshot"])
def test_a_shelve_that_lost_its_host_leaves_the_server_as_it_was(
    cell_of: NewCell, images: FolderImages, step: str, vanish: Callable[[Cell, str, str], None]
) -> None:
    """The host powers the guest on again and drops the copy of its disk when it is back."""
    cell = cell_of(host("a"), images=images)
    (uuid,) = booted(cell)
    vanish(cell, step, "a")
    cell.shelve(uuid)
    lose(cell, "a")
    assert not cell.conductor.runner.waits_for_agents
    come_back(cell, "a")
    server = cell.instance(uuid)
    assert (server.vm_state, server.task_state, server.power_state) == (VmState.ACTIVE, None, PowerState.RUNNING)
    assert cell.drivers["a"].list_guests() == {uuid: PowerState.RUNNING}
    rest(cell)
    assert own(images) == []
    with cell.database.read() as connection:
        (event,) = instance_actions.events(connection, uuid, "req-shelve")
    assert (event.event, event.result, event.host) == ("compute_shelve_instance", "Error", "a")
    assert event.details == "The host of the instance cannot be reached."


@pytest.mark.parametrize("act", [Cell.shelve, Cell.create_image, Cell.create_backup])
def test_a_delete_that_does_not_wait_for_the_host_leaves_no_image(
    cell_of: NewCell, images: FolderImages, act: Callable[[Cell, str], object]
) -> None:
    cell = cell_of(host("a"), images=images)
    (uuid,) = booted(cell)
    vanish_before(cell, "snapshot", "a")
    act(cell, uuid)
    lose(cell, "a")
    assert own(images) != []
    cell.delete(uuid)
    cell.work_off()
    assert cell.find(uuid) is None
    assert cell.image_remover is not None
    cell.image_remover.turn()
    assert own(images) == []
    come_back(cell, "a")
    rest(cell)
