# SPDX-License-Identifier: Apache-2.0
"""Random histories of servers' moves, with repeated and untimely operations: usage stays correct, mirrors agree."""

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random

from kilonova.claims.claimer import Order
from kilonova.conductor.workflows.release import release_server
from kilonova.db import group_guards, instances, moves
from kilonova.db.audits import audit
from kilonova.db.core import tables as t
from kilonova.db.core.transaction import Transaction
from kilonova.db.database import Database
from kilonova.errors import ConcurrentUpdate, NotFound, NoValidHost
from kilonova.mirror.mirror import Mirror
from kilonova.model.flavor import Flavor
from kilonova.model.server_migration import MigrationStatus, MigrationType
from kilonova.scenario.model import SimulatedCell, SimulatedPool
from kilonova.scheduler.settings import DEFAULT_FILTERS, SchedulerConfig
from support.cell import SMALL, Cell, host, start_cell
from support.mirrors import assert_equal
from support.moves import again, migration_of, move, servers, settle
from support.world import check_books

_STEPS = 100
_ENDS = (MigrationStatus.ERROR, MigrationStatus.CANCELLED, MigrationStatus.FAILED)
_CONFIG = SchedulerConfig(
    enabled_filters=(*DEFAULT_FILTERS, "NUMATopologyFilter", "PciPassthroughFilter"),
    pci_alias=('{"name": "gpu", "vendor_id": "10de", "product_id": "1db4"}',),
)
_FLAVORS = (
    SMALL,
    Flavor("2", "large", 2, 1024, 2),
    Flavor("3", "odd", 3, 256, 1),
    Flavor("4", "pinned", 2, 512, 1, extra_specs={"hw:cpu_policy": "dedicated"}),
    Flavor("5", "gpu", 1, 512, 1, extra_specs={"pci_passthrough:alias": "gpu:1"}),
)


class Story:
    """Cloud on which random operations run in sequence. ``moving``: server → the order of its move."""

    def __init__(self, cell: Cell, rng: Random) -> None:
        self.cell = cell
        self.rng = rng
        self.groups = [None, None, *map(cell.add_group, ("affinity", "anti-affinity", "soft-affinity"))]
        self.alive: list[str] = []
        self.moving: dict[str, Order] = {}
        self.over: list[Order] = []

    def build(self) -> None:
        self.alive += servers(self.cell, flavor=self.rng.choice(_FLAVORS), group=self.rng.choice(self.groups))

    def begin(self) -> None:
        uuid = self.rng.choice([uuid for uuid in self.alive if uuid not in self.moving])
        kind = self.rng.choice((MigrationType.RESIZE, MigrationType.RESIZE, *MigrationType))
        kind = MigrationType.MIGRATION if kind is MigrationType.EVACUATION else kind
        flavor = self.rng.choice(_FLAVORS) if kind is MigrationType.RESIZE else None
        leaving = () if flavor is not None and self.rng.random() < 0.4 else None
        self.moving[uuid] = move(self.cell, uuid, to=flavor, kind=kind, leaving=leaving)

    def claim(self) -> None:
        uuid = self.rng.choice(sorted(self.moving))
        wanted = self.moving[uuid]
        self.cell.database.write(lambda tx: tx.execute(t.workflows.update().values(attempt=0)))
        if not self.cell.claimer.place(wanted).workflows:
            raise ConcurrentUpdate("The server already has a destination.")

    def switch(self) -> None:
        self._act(moves.switch)

    def confirm(self) -> None:
        self._act(moves.confirm, ends=True)

    def revert(self) -> None:
        self._act(moves.revert, ends=True)

    def undo(self) -> None:
        status = self.rng.choice(_ENDS)
        self._act(lambda tx, which: moves.undo_claim(tx, which, status), ends=True)

    def try_elsewhere(self) -> None:
        uuid = self.rng.choice(sorted(self.moving))
        wanted = self.moving[uuid]
        first = migration_of(self.cell, wanted)
        self.cell.database.write(lambda tx: moves.undo_claim(tx, first, MigrationStatus.ACCEPTED))
        self.moving[uuid] = replace(wanted, spec=again(wanted, first).spec)

    def delete(self) -> None:
        uuid = self.rng.choice(self.alive)

        def delete(tx: Transaction) -> None:
            release_server(tx, uuid)
            group_guards.forget_members(tx, [uuid])
            instances.mark_deleted(tx, uuid)

        self.cell.database.write(delete)
        self.alive.remove(uuid)
        if uuid in self.moving:
            self.over.append(self.moving.pop(uuid))

    def come_late(self) -> None:
        """Run a late operation of a move that has ended."""
        self._late(self.rng.choice(self.over), self.rng.choice((moves.switch, moves.confirm, moves.revert)))

    def _act(self, act: Callable[..., None], *, ends: bool = False) -> None:
        uuid = self.rng.choice(sorted(self.moving))
        wanted = self.moving[uuid]
        migration = migration_of(self.cell, wanted)
        for _ in range(self.rng.choice((1, 2))):
            self.cell.database.write(lambda tx: act(tx, migration))
        if ends:
            settle(self.cell, uuid)
            self.over.append(self.moving.pop(uuid))

    def _late(self, wanted: Order, act: Callable[..., None]) -> None:
        migration = migration_of(self.cell, wanted)
        self.cell.database.write(lambda tx: act(tx, migration))

    def go_on(self) -> str:
        """Run one random operation; untimely ones are refused."""
        often = [self.begin] if len(self.moving) < 2 else []  # with more concurrent moves, few would reach their end
        often += [self.claim, self.claim, self.switch, self.switch, self.confirm]
        seldom = [self.build, self.confirm, self.revert, self.undo, self.try_elsewhere, self.delete, self.come_late]
        acts = [*often, *seldom] if len(self.alive) > 3 else [self.build]
        act = self.rng.choice(acts)
        try:
            act()
        # IndexError: rng.choice had no candidates
        except (IndexError, NoValidHost, ConcurrentUpdate, NotFound) as refused:
            return f"{act.__name__}: {type(refused).__name__}"
        return act.__name__

    def check(self) -> None:
        with self.cell.database.read() as connection:
            check_books(connection)
            assert audit.find_all(connection) == ()
        assert self.cell.mirror.assumed() == ()


def test_books_balance_whatever_happens_to_servers_that_move(sqlite_template: Path, tmp_path: Path) -> None:
    happened: set[str] = set()
    for seed in range(4):
        folder = tmp_path / str(seed)
        folder.mkdir()
        shutil.copy(sqlite_template, folder / "kilonova.db")
        happened |= tell(folder, seed)
    assert {"claim", "switch", "confirm", "delete", "undo", "revert", "try_elsewhere"} <= happened


def tell(folder: Path, seed: int) -> set[str]:
    """Run the history of a seed on a new database, and return its operations."""
    numa = (SimulatedCell(4096, cpus="0-7", dedicated="8-11", pages={"4": 1_048_576}),)
    pci = (SimulatedPool("10de", "1db4", 2, 0),)
    hosts = tuple(host(name, vcpus=6, memory_mib=4096, numa=numa, pci=pci) for name in "abcd")
    cell = start_cell(folder, hosts, database=Database(f"sqlite:///{folder / 'kilonova.db'}"), config=_CONFIG)
    story = Story(cell, Random(seed))
    told: list[str] = []
    for _ in range(_STEPS):
        told.append(story.go_on())
        try:
            story.check()
        except AssertionError as wrong:
            raise AssertionError(f"seed {seed}, after {told}") from wrong
    assert_equal(cell.mirror, Mirror.follow(cell.database))
    cell.database.close()
    return {*told}
