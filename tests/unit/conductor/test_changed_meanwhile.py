# SPDX-License-Identifier: Apache-2.0
"""A server that is another one by the time at which an action of it is stored than when it was looked at."""

from collections.abc import Callable
from pathlib import Path

import pytest

from kilonova.errors import ConcurrentUpdate, UnexpectedTaskState
from kilonova.model.instance import VmState
from support.cell import IMAGE, Cell, NewCell, host
from support.folder_images import FolderImages


@pytest.mark.parametrize("kind", ["resize", "migrate", "live_migrate", "rebuild", "evacuate"])
def test_whether_its_guest_runs_is_what_it_is_by_then(cell_of: NewCell, kind: str) -> None:
    cell = cell_of(host("node1"), host("node2"))
    (uuid,) = cell.boot(force_host="node1")
    cell.bus.run()
    before, after = ("pause", "unpause") if kind == "live_migrate" else ("stop", "start")
    cell.power(uuid, before)
    cell.bus.run()
    seen = cell.instance(uuid)
    cell.power(uuid, after)
    cell.bus.run()
    late = Cell(**vars(cell))
    late.instance = lambda _uuid: seen  # type: ignore[method-assign]
    with pytest.raises(ConcurrentUpdate):
        getattr(late, kind)(uuid)
    cell.bus.run()
    assert cell.check() == {uuid: VmState.ACTIVE}


@pytest.mark.parametrize(
    "act",
    [
        lambda cell, uuid: cell.power(uuid, "stop"),
        lambda cell, uuid: cell.power(uuid, "pause"),
        lambda cell, uuid: cell.power(uuid, "reboot"),
        lambda cell, uuid: cell.power(uuid, "hard-reboot"),
        Cell.rescue,
        Cell.change_password,
        Cell.crash_dump,
        Cell.create_image,
        Cell.create_backup,
    ],
    ids=["stop", "pause", "reboot", "hard reboot", "rescue", "password", "crash dump", "image", "backup"],
)
def test_nothing_is_asked_of_the_host_that_it_has_left(
    cell_of: NewCell, tmp_path: Path, act: Callable[[Cell, str], object]
) -> None:
    images = FolderImages(tmp_path / "images")
    images.add(IMAGE.id, b"what servers are made of")
    cell = cell_of(host("node1"), host("node2"), images=images)
    (uuid,) = cell.boot(force_host="node1")
    cell.work_off()
    seen = cell.instance(uuid)
    cell.live_migrate(uuid)
    cell.work_off()
    late = Cell(**vars(cell))
    late.instance = lambda _uuid: seen  # type: ignore[method-assign]
    with pytest.raises(UnexpectedTaskState):
        act(late, uuid)
    cell.work_off()
    assert cell.check() == {uuid: VmState.ACTIVE}
    assert (cell.instance(uuid).host, cell.instance(uuid).task_state) == ("node2", None)


def test_a_refusal_says_whether_the_task_or_the_state_was_another(cell_of: NewCell) -> None:
    cell = cell_of(host("node1"))
    (uuid,) = cell.boot()
    cell.work_off()
    seen = cell.instance(uuid)
    late = Cell(**vars(cell))
    late.instance = lambda _uuid: seen  # type: ignore[method-assign]
    cell.power(uuid, "stop")
    with pytest.raises(UnexpectedTaskState, match=r"Expected: \['None'\]. Actual: powering-off\."):
        late.power(uuid, "pause")
    cell.work_off()
    with pytest.raises(UnexpectedTaskState, match=r"Expected: \['active'\]. Actual: stopped\."):
        late.power(uuid, "pause")
