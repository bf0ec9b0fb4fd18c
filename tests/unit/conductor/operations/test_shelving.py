# SPDX-License-Identifier: Apache-2.0
"""Where unshelved servers come, what hosts that are away mean for shelving, and what becomes of images meanwhile."""

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kilonova.errors import ConcurrentUpdate, Forbidden, Unavailable
from kilonova.identifiers import new_uuid
from kilonova.model.image_data import ImageData
from kilonova.model.instance import PowerState, VmState
from kilonova.scheduler.filters import different_host
from kilonova.scheduler.settings import SchedulerConfig
from support.cell import IMAGE, Cell, Killed, NewCell, asker, host
from support.folder_images import FolderImages


@pytest.fixture
def images(tmp_path: Path) -> FolderImages:
    images = FolderImages(tmp_path / "images")
    images.add(IMAGE.id, b"what servers are made of")
    return images


def shelved(cell: Cell, uuid: str, *, offload: bool = True) -> None:
    cell.shelve(uuid, offload=offload)
    rest(cell)


def rest(cell: Cell) -> None:
    cell.work_off()
    assert cell.image_remover is not None
    cell.image_remover.turn()
    cell.check()


def booted(cell: Cell, count: int = 1, **asked: object) -> list[str]:
    uuids = cell.boot(count, **asked)  # type: ignore[arg-type]
    rest(cell)
    return uuids


def own(images: FolderImages) -> list[str]:
    return [image_id for image_id in images.all() if image_id != IMAGE.id]


def test_an_unshelved_server_keeps_away_from_its_group_and_from_whom_it_was_told(
    cell_of: NewCell, images: FolderImages
) -> None:
    filters = (*SchedulerConfig().enabled_filters, "DifferentHostFilter")
    config = replace(SchedulerConfig(), enabled_filters=filters)
    cell = cell_of(host("a", vcpus=8), host("b", vcpus=2), host("c", vcpus=1), images=images, config=config)
    (other,) = booted(cell, force_host="b")
    group = cell.add_group("anti-affinity")
    apart = {different_host.HINT: (other,)}
    first, second = booted(cell, 1, group=group, hints=apart) + booted(cell, 1, group=group, hints=apart)
    assert {cell.instance(first).host, cell.instance(second).host} == {"a", "c"}
    there = first if cell.instance(first).host == "a" else second
    shelved(cell, there)
    cell.unshelve(there, "b")
    rest(cell)
    assert cell.instance(there).vm_state is VmState.SHELVED_OFFLOADED
    (held,) = booted(cell, force_host="a")  # nothing of its old place is kept
    cell.unshelve(there)
    rest(cell)
    assert (cell.instance(there).host, cell.instance(held).host) == ("a", "a")


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


def test_a_user_who_may_make_no_image_leaves_nothing_behind(cell_of: NewCell, images: FolderImages) -> None:
    cell = cell_of(host("a"), images=images)
    (uuid,) = booted(cell)

    def refuse() -> None:
        raise Forbidden("The image service does not take the image.")

    snapshots = cell.conductor.operations.snapshots
    with pytest.raises(Forbidden):
        snapshots.create_image(uuid, "never", asker("req-1"), refuse)
    rest(cell)
    assert cell.instance(uuid).task_state is None


def test_a_delete_while_the_image_is_being_registered_wins(cell_of: NewCell, images: FolderImages) -> None:
    cell = cell_of(host("a"), images=images)
    (uuid,) = booted(cell)
    register = cell._registered("late", uuid, image_type="snapshot")

    def delete_first() -> None:
        cell.delete(uuid)
        cell.work_off()
        register()

    with pytest.raises(Exception, match="was changed meanwhile"):
        cell.conductor.operations.snapshots.create_image(uuid, "late", asker("req-1"), delete_first)
    rest(cell)
    assert (cell.find(uuid), own(images)) == (None, [])


@pytest.mark.parametrize("is_taken", [True, False])
@pytest.mark.parametrize("act", ["shelve", "create_image"])
def test_what_is_waited_for_ends_while_the_image_is_registered(
    cell_of: NewCell, images: FolderImages, act: str, *, is_taken: bool
) -> None:
    """A crash dump shows no task, so that users can ask for more meanwhile."""
    cell = cell_of(host("a"), images=images)
    (uuid,) = booted(cell)
    image_id, operations = new_uuid(), cell.conductor.operations
    register = cell._registered(image_id, uuid, image_type="snapshot")
    cell.crash_dump(uuid)

    def register_afterwards() -> None:
        cell.work_off()
        if not is_taken:
            raise Forbidden("The image service does not take the image.")
        register()

    with nullcontext() if is_taken else pytest.raises(Forbidden):
        if act == "shelve":
            asked = uuid, image_id, asker("req-1"), register_afterwards
            operations.shelving.shelve(*asked, offload=True)
        else:
            operations.snapshots.create_image(uuid, image_id, asker("req-1"), register_afterwards)
        assert cell.instance(uuid).task_state is not None
    if not is_taken:
        assert cell.instance(uuid).task_state is None
    rest(cell)
    assert own(images) == ([image_id] if is_taken else [])
    is_shelved = is_taken and act == "shelve"
    assert cell.instance(uuid).vm_state is (VmState.SHELVED_OFFLOADED if is_shelved else VmState.ACTIVE)


@pytest.mark.parametrize("is_made", [True, False])
@pytest.mark.parametrize("act", ["shelve", "create_image"])
def test_a_database_that_goes_away_while_the_image_is_registered_leaves_nothing_undone(
    cell_of: NewCell, images: FolderImages, monkeypatch: pytest.MonkeyPatch, act: str, *, is_made: bool
) -> None:
    cell = cell_of(host("a"), images=images)
    (uuid,) = booted(cell)
    image_id, operations = new_uuid(), cell.conductor.operations
    register = cell._registered(image_id, uuid, image_type="snapshot")

    def away(*_: object, **__: object) -> Any:
        raise Unavailable("The database cannot be reached.")

    def register_as_it_goes() -> None:
        monkeypatch.setattr(cell.database, "read", away)
        monkeypatch.setattr(cell.database, "write", away)
        if not is_made:
            raise Unavailable("The image service cannot be reached.")
        register()

    with pytest.raises(Unavailable):
        if act == "shelve":
            asked = uuid, image_id, asker("req-1"), register_as_it_goes
            operations.shelving.shelve(*asked, offload=True)
        else:
            operations.snapshots.create_image(uuid, image_id, asker("req-1"), register_as_it_goes)
    monkeypatch.undo()
    rest(cell)
    server = cell.instance(uuid)
    is_shelved = is_made and act == "shelve"
    assert (server.task_state, server.vm_state) == (None, VmState.SHELVED_OFFLOADED if is_shelved else VmState.ACTIVE)
    assert own(images) == ([image_id] if is_made else [])


@pytest.mark.parametrize("act", [Cell.shelve, Cell.create_image, Cell.create_backup])
def test_no_image_is_left_of_a_server_whose_state_is_reset_meanwhile(
    cell_of: NewCell, images: FolderImages, act: Callable[[Cell, str], object]
) -> None:
    cell = cell_of(host("a"), images=images)
    (uuid,) = booted(cell)
    act(cell, uuid)
    cell.conductor.operations.states.reset(cell.instance(uuid), VmState.ACTIVE, asker("req-reset"))
    rest(cell)
    assert own(images) == []
    assert (cell.instance(uuid).vm_state, cell.instance(uuid).task_state) == (VmState.ACTIVE, None)


def test_an_unshelve_takes_the_image_of_the_last_shelve(cell_of: NewCell, images: FolderImages) -> None:
    """The server was unshelved and shelved again since the request looked at it: the image of then is gone."""
    cell = cell_of(host("a"), images=images)
    (uuid,) = booted(cell)
    shelved(cell, uuid)
    cell.unshelve(uuid)
    rest(cell)
    shelved(cell, uuid)
    cell.unshelve(uuid)
    rest(cell)
    assert (cell.instance(uuid).vm_state, cell.instance(uuid).fault, own(images)) == (VmState.ACTIVE, None, [])


@pytest.mark.parametrize("place", [{"host": "a"}, {"rezoned": True, "zone": None}])
def test_a_server_that_is_on_its_host_by_then_is_unshelved_to_no_place(
    cell_of: NewCell, images: FolderImages, place: dict[str, Any]
) -> None:
    """It had left its host when the request looked at it."""
    cell = cell_of(host("a"), images=images)
    (uuid,) = booted(cell)
    shelved(cell, uuid, offload=False)
    with pytest.raises(ConcurrentUpdate):
        cell.conductor.operations.shelving.unshelve(uuid, asker("req-late"), **place)
    rest(cell)
    assert cell.instance(uuid).vm_state is VmState.SHELVED


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


@pytest.mark.parametrize("ended_by", [Cell.evacuate, Cell.delete])
@pytest.mark.parametrize("waits", [Cell.shelve, Cell.create_image, Cell.create_backup])
def test_an_image_that_nobody_needs_any_more_before_the_server_was_free_for_it(
    cell_of: NewCell, images: FolderImages, waits: Callable[..., None], ended_by: Callable[..., None]
) -> None:
    cell = cell_of(host("a"), host("b"), images=images)
    (uuid,) = booted(cell, force_host="a")
    cell.crash_dump(uuid)
    waits(cell, uuid)
    assert len(own(images)) == 1
    ended_by(cell, uuid)
    rest(cell)
    assert own(images) == []
    assert ended_by is Cell.delete or cell.instance(uuid).host == "b"


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
