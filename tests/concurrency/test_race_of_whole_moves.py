# SPDX-License-Identifier: Apache-2.0
"""Race of 64 whole moves and 64 builds, run by threaded conductors, for room for 40 servers of both kinds."""

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest
import sqlalchemy as sa

from kilonova.db.core import tables as t
from kilonova.db.database import Database
from kilonova.messaging.local import LocalBus
from kilonova.model.flavor import Flavor
from kilonova.model.instance import VmState
from support.cell import SMALL, Cell, host, start_cell
from support.mirrors import assert_equal
from support.world import check_guests, check_world, guests_on_disk

_MOVES = _BUILDS = 64
_ROOM = {"b": 16, "c": 12, "d": 12}
_OTHER = Flavor("9", "as-big", vcpus=SMALL.vcpus, memory_mib=SMALL.memory_mib, root_gib=SMALL.root_gib)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["sqlite", "postgresql"], indirect=True)
def test_never_more_than_fits(open_database: Callable[[], Database], tmp_path: Path, kind: str) -> None:
    big = {"memory_mib": 65_536, "disk_gib": 1_000}
    first = (host("a", vcpus=_MOVES, **big), host("b", vcpus=_ROOM["b"], **big))
    second = tuple(host(name, vcpus=_ROOM[name], **big) for name in ("c", "d"))
    cells: list[Cell] = []
    for number, hosts in enumerate([first + second] if kind == "sqlite" else [first, second]):  # control processes
        folder = tmp_path / str(number)
        folder.mkdir()
        cells.append(start_cell(folder, hosts, database=open_database(), bus=LocalBus()))
    moving = cells[0].boot(_MOVES, force_host="a")
    come_to_rest(cells)
    with never_above_capacity(cells[0].database), ThreadPoolExecutor(16) as pool:
        for number, uuid in enumerate(moving):
            cell = cells[number % len(cells)]
            pool.submit(cell.migrate, uuid) if number % 2 else pool.submit(cell.resize, uuid, _OTHER)
            pool.submit(cell.boot)
        pool.shutdown()
        come_to_rest(cells)
    states = check(cells)
    moved = [uuid for uuid in moving if states[uuid] == VmState.RESIZED]
    built = [uuid for uuid in states if uuid not in moving and states[uuid] == VmState.ACTIVE]
    assert len(states) == _MOVES + _BUILDS
    assert len(moved) + len(built) == sum(_ROOM.values())
    assert moved
    assert built, "only moves got room"
    assert all(states[uuid] == VmState.ACTIVE for uuid in moving if uuid not in moved)
    for number, uuid in enumerate(moved):
        (Cell.confirm if number % 2 else Cell.revert)(cells[0], uuid)
    come_to_rest(cells)
    states = check(cells)
    assert all(states[uuid] == VmState.ACTIVE for uuid in moving)
    for cell in cells:
        cell.bus.close()


@contextmanager
def never_above_capacity(database: Database) -> Iterator[None]:
    """Check all capacities repeatedly until the run ends, and once more after it."""
    inventory, over, ended = t.inventories.c, [], threading.Event()
    above = sa.select(t.inventories).where(inventory.used > inventory.capacity)

    def watch() -> None:
        while True:
            with database.read() as connection:
                over.extend(connection.execute(above).all())
            if ended.wait(0.01):
                return

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
    assert over == []


def come_to_rest(cells: list[Cell]) -> None:
    until = time.monotonic() + 120
    while True:
        with cells[0].database.read() as connection:
            left = connection.execute(sa.select(t.workflows)).all()
        if not left:
            return
        assert time.monotonic() < until, f"stuck: {left}"
        for cell in cells:
            cell.conductor.process_lease.take_handed_over()
            cell.conductor.runner.retry_broken()
        time.sleep(0.02)


def check(cells: list[Cell]) -> dict[str, str]:
    folders = [cell.folder / "hypervisors" for cell in cells]
    guests = {host: uuids for folder in folders for host, uuids in guests_on_disk(folder).items()}
    with cells[0].database.read() as connection:
        states = check_world(connection, guests)
        check_guests(connection, *folders)
    for cell in cells:
        cell.mirror.catch_up()
        assert cell.mirror.assumed() == ()
        assert_equal(cell.mirror, cells[0].mirror)
    return states
