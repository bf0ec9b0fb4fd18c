# SPDX-License-Identifier: Apache-2.0
"""A server that is another one by the time at which an action of it is stored than when it was looked at."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from kilonova.errors import ConcurrentUpdate, UnexpectedTaskState
from kilonova.model.instance import VmState
from support.cell import BIGGER, IMAGE, RESCUE_IMAGE, Cell, NewCell, Running, host
from support.folder_images import FolderImages


@pytest.mark.parametrize("runs", [True, False])
@pytest.mark.parametrize("kind", ["resize", "migrate", "live_migrate", "rebuild", "evacuate"])
def test_whether_its_guest_runs_is_what_it_is_by_then(cell_of: NewCell, kind: str, *, runs: bool) -> None:
    cell = cell_of(host("node1"), host("node2"))
    (uuid,) = cell.boot(force_host="node1")
    cell.bus.run()
    before, after = ("pause", "unpause") if kind == "live_migrate" else ("stop", "start")
    cell.power(uuid, before)
    cell.bus.run()
    if runs:
        cell.power(uuid, after)
        cell.bus.run()
    seen = cell.instance(uuid)
    getattr(cell, kind)(uuid)
    cell.bus.run()
    now = cell.instance(uuid)
    assert now.power_state is seen.power_state
    assert cell.check() == {uuid: VmState.RESIZED if kind in {"resize", "migrate"} else seen.vm_state}


@pytest.mark.parametrize("act", [Cell.migrate, Cell.live_migrate])
def test_it_is_not_moved_to_the_host_on_which_it_is_by_then(left_for_node2: Running, act: Callable[..., None]) -> None:
    cell, uuid = left_for_node2
    with pytest.raises(ConcurrentUpdate, match="is already on host node2"):
        act(cell, uuid, "node2")
    cell.work_off()
    assert cell.check() == {uuid: VmState.ACTIVE}


def test_it_is_not_resized_to_the_flavor_that_it_has_by_then(cell_of: NewCell) -> None:
    cell = cell_of(host("node1"), host("node2"))
    (uuid,) = cell.boot()
    cell.work_off()
    cell.resize(uuid, replace(BIGGER, root_gib=BIGGER.root_gib + 1))
    cell.work_off()
    cell.confirm(uuid)
    cell.work_off()
    for flavor in (BIGGER, replace(BIGGER, flavor_id="small disk")):
        with pytest.raises(ConcurrentUpdate, match=f"now has flavor {BIGGER.flavor_id}"):
            cell.resize(uuid, flavor)
    cell.work_off()
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
def test_it_is_asked_of_the_host_on_which_the_server_is_by_then(
    cell_of: NewCell, tmp_path: Path, act: Callable[[Cell, str], object]
) -> None:
    images = FolderImages(tmp_path / "images")
    for image in (IMAGE, RESCUE_IMAGE):
        images.add(image.id, b"what servers are made of")
    cell = cell_of(host("node1"), host("node2"), images=images)
    (uuid,) = cell.boot(force_host="node1")
    cell.work_off()
    cell.live_migrate(uuid)
    cell.work_off()
    cell.bus.cut_off = {"node1"}
    act(cell, uuid)
    cell.work_off()
    server = cell.instance(uuid)
    assert (server.host, server.task_state, server.fault) == ("node2", None, None)
    cell.reconnect()
    cell.work_off()
    cell.check()


def test_a_refusal_says_whether_the_task_or_the_state_was_another(cell_of: NewCell) -> None:
    cell = cell_of(host("node1"))
    (uuid,) = cell.boot()
    cell.work_off()
    cell.power(uuid, "stop")
    with pytest.raises(UnexpectedTaskState, match=r"Expected: \['None'\]. Actual: powering-off\."):
        cell.power(uuid, "pause")
    cell.work_off()
    with pytest.raises(UnexpectedTaskState, match=r"Expected: \['active'\]. Actual: stopped\."):
        cell.power(uuid, "pause")
