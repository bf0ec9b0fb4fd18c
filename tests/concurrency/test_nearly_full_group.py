# SPDX-License-Identifier: Apache-2.0
"""Race of two control processes that place servers into one nearly full server group, repeated."""

import random
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest

from kilonova.claims.claimer import Order
from kilonova.cli.wiring.rules import build_engine
from kilonova.conductor.workflows.release import release_claim
from kilonova.db import instances, workflows
from kilonova.db.core.transaction import Transaction
from kilonova.db.database import Database
from kilonova.db.workflows import WorkflowRow
from kilonova.errors import NoValidHost
from kilonova.scheduler.settings import SchedulerConfig
from support.cell import Cell, host, start_cell
from support.manual_bus import ManualBus
from support.orders import order
from support.samples import sampled
from support.world import check_books

HOSTS = 5
#: Backend → number of rounds; each round places two servers.
ROUNDS = {"postgresql": sampled(500, sample=80), "mariadb": sampled(100, sample=40)}


@pytest.fixture
def cells(database_url: str, tmp_path: Path) -> Iterator[tuple[Cell, Cell]]:
    databases = [Database(database_url), Database(database_url)]
    names = [host(f"node{number}", vcpus=64) for number in range(HOSTS)]
    folders = [tmp_path / "one", tmp_path / "other"]
    for folder in folders:
        folder.mkdir()
    # Hosts send no heartbeats here, so the filter for live hosts is left out.
    engine = build_engine(SchedulerConfig(enabled_filters=("ServerGroupAntiAffinityFilter",)))
    yield (
        start_cell(folders[0], tuple(names), bus=ManualBus(), database=databases[0], engine=engine),
        start_cell(folders[1], (), bus=ManualBus(), database=databases[1], engine=engine),
    )
    for database in databases:
        database.close()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["postgresql", "mariadb"], indirect=True)
def test_nobody_is_turned_away_while_a_legal_host_is_free(cells: tuple[Cell, Cell]) -> None:
    chance = random.Random(1)
    group = cells[0].add_group("anti-affinity")
    members: dict[str, tuple[WorkflowRow, Cell]] = {}
    for cell, count in zip(cells, (3, 2), strict=True):
        for flow in cell.claimer.place(order(cell, count, group=group)).workflows:
            members[flow.facts["host"]] = flow, cell
    assert len(members) == HOSTS
    with ThreadPoolExecutor(2) as pool:
        for _ in range(ROUNDS[cells[0].database.url.get_backend_name()]):
            free = chance.sample(sorted(members), chance.choice((1, 2)))
            for name in free:
                release(*members.pop(name), group)
            orders = [order(cell, group=group) for cell in cells]
            start = Barrier(2)
            taken = list(pool.map(lambda pair: place(*pair, start), zip(cells, orders, strict=True)))  # noqa: B023
            placed = [(flow, cell) for flow, cell in zip(taken, cells, strict=True) if flow is not None]
            assert sorted(flow.facts["host"] for flow, _ in placed) == sorted(free)
            members |= {flow.facts["host"]: (flow, cell) for flow, cell in placed}
    with cells[1].database.read() as connection:
        check_books(connection)


def place(cell: Cell, wanted: Order, start: Barrier) -> WorkflowRow | None:
    """Return the workflow of a server that was placed, or None if no host was left for it."""
    start.wait(30)
    try:
        (flow,) = cell.claimer.place(wanted).workflows
    except NoValidHost:
        cell.database.write(lambda tx: instances.mark_deleted(tx, wanted.jobs[0].instance_uuid))
        return None
    return flow


def release(flow: WorkflowRow, cell: Cell, group: str) -> None:
    def vanish(tx: Transaction) -> None:
        workflows.finish(tx, flow, cell.conductor.owner)
        release_claim(tx, flow.instance_uuid, group, flow.facts["host"])
        instances.mark_deleted(tx, flow.instance_uuid)

    cell.database.write(vanish)
