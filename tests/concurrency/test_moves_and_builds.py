# SPDX-License-Identifier: Apache-2.0
"""Race of 64 moves and 64 builds for room for 40 servers: exactly 40 succeed, and all usage is correct."""

import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

from kilonova.claims.claimer import Order
from kilonova.db import instances, moves
from kilonova.db.database import Database
from kilonova.errors import NoValidHost
from kilonova.mirror.mirror import Mirror
from support.cell import Cell, host, start_cell
from support.manual_bus import ManualBus
from support.mirrors import assert_equal
from support.moves import held, migration_of, move, servers
from support.orders import order
from support.world import check_books

_MOVES = _BUILDS = 64
_ROOM = {"b": 16, "c": 12, "d": 12}


def test_moves_and_builds_share_what_room_there_is(
    open_database: Callable[[], Database], tmp_path: Path, kind: str
) -> None:
    big = {"memory_mib": 65_536, "disk_gib": 1_000}
    hosts = (host("a", vcpus=_MOVES, **big), *(host(name, vcpus=room, **big) for name, room in _ROOM.items()))
    cells: list[Cell] = []
    for number in range(1 if kind == "sqlite" else 2):  # one control process on SQLite, two on the other databases
        folder = tmp_path / str(number)
        folder.mkdir()
        cells.append(start_cell(folder, () if number else hosts, database=open_database(), bus=ManualBus()))
    cell = cells[0]
    moving = [move(cell, uuid) for uuid in servers(cell, _MOVES, on="a")]
    building = [order(cell) for _ in range(_BUILDS)]
    asked = [*moving, *building]
    random.Random(1).shuffle(asked)
    barrier = Barrier(len(asked))

    def place(number: int, wanted: Order) -> bool:
        barrier.wait(60)
        try:
            return bool(cells[number % len(cells)].claimer.place(wanted).workflows)
        except NoValidHost:
            return False

    with ThreadPoolExecutor(len(asked)) as pool:
        won = dict(zip(map(id, asked), pool.map(place, range(len(asked)), asked), strict=True))
    assert sum(won.values()) == sum(_ROOM.values())
    check(cells)
    holding = held(cell)
    for wanted in moving:
        uuid, migration = wanted.jobs[0].instance_uuid, migration_of(cell, wanted)
        if won[id(wanted)]:
            assert (set(holding[migration.uuid]), set(holding[uuid])) == ({"a"}, {migration.dest_host})
        else:
            assert set(holding[uuid]) == {"a"}
            assert migration.uuid not in holding
    winners = [wanted for wanted in moving if won[id(wanted)]]
    assert 0 < len(winners) < sum(_ROOM.values()), "only moves or only builds got room"
    end(cell, winners)
    check(cells)
    assert set(held(cell)) == {uuid for uuid, place in hosts_of(cell, asked).items() if place}


def end(cell: Cell, winners: list[Order]) -> None:
    """Confirm some of the moves, and revert the others."""
    for number, wanted in enumerate(winners):
        migration = migration_of(cell, wanted)
        cell.database.write(lambda tx: moves.switch(tx, migration))  # noqa: B023
        ends = moves.revert if number % 2 else moves.confirm
        cell.database.write(lambda tx: ends(tx, migration))  # noqa: B023


def hosts_of(cell: Cell, asked: list[Order]) -> dict[str, frozenset[str]]:
    with cell.database.read() as connection:
        return instances.hosts_of(connection, [wanted.jobs[0].instance_uuid for wanted in asked])


def check(cells: list[Cell]) -> None:
    for cell in cells:
        with cell.database.read() as connection:
            check_books(connection)
        assert cell.mirror.assumed() == ()
        assert_equal(cell.mirror, Mirror.follow(cell.database))
