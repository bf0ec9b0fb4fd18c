# SPDX-License-Identifier: Apache-2.0
"""Images of shelved servers while they are registered: deletes, interrupts, errors and kills."""

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import pytest

from kilonova.errors import Forbidden, Unavailable
from kilonova.identifiers import new_uuid
from kilonova.model.instance import VmState
from support.cell import Cell, NewCell, asker, host
from support.folder_images import FolderImages
from support.shelved import booted, own, rest


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
