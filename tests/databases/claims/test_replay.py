# SPDX-License-Identifier: Apache-2.0
"""Decisions that were stored can be made again, to the bit, from a checkpoint and the change log."""

import random
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import sqlalchemy as sa

from kilonova.claims.checkpointer import Checkpointer
from kilonova.claims.claimer import Order
from kilonova.claims.replay import NoReplay, Outcome, Replay, replay_all
from kilonova.cli.wiring.rules import build_engine
from kilonova.conductor.workflows.release import release_claim
from kilonova.config.scheduler import scheduling_digest
from kilonova.db import aggregates, checkpoints, decisions, instances, services
from kilonova.db.core import change_log
from kilonova.db.core import tables as t
from kilonova.db.core.transaction import Transaction
from kilonova.db.database import Database
from kilonova.errors import NoValidHost
from kilonova.mirror.mirror import Mirror
from kilonova.model.flavor import Flavor
from kilonova.scheduler.engine.engine import Engine
from kilonova.scheduler.settings import SchedulerConfig
from support.cell import Cell, host, start_cell
from support.mirrors import assert_equal
from support.orders import order
from support.processes import revive, silence
from support.strict_filters import STRICT_FILTERS

CHANCE = build_engine(
    SchedulerConfig(
        enabled_filters=STRICT_FILTERS,
        host_subset_size=3,
        shuffle_best_same_weighed_hosts=True,
        num_instances_weight_multiplier=-0.7,
    )
)
POLICIES = ("affinity", "anti-affinity", "soft-anti-affinity")
NO_TIME = timedelta(0)
AS_CONFIGURED = scheduling_digest(SchedulerConfig())


def cell_on(database: Database, folder: Path, engine: Engine = CHANCE, hosts: int = 8) -> Cell:
    sizes = random.Random(hosts)
    made = [
        host(f"n{n}", vcpus=sizes.randint(2, 9), memory_mib=1024 * sizes.randint(4, 16), disk_gib=50)
        for n in range(hosts)
    ]
    return start_cell(folder, tuple(made), database=database, engine=engine)


def checkpoint(database: Database, kept: int = 9) -> int:
    seq = Checkpointer(database, kept, every=NO_TIME).take_if_due()
    assert seq is not None
    return seq


def place(cell: Cell, orders: Sequence[tuple[Order, str | None]], *, deleted: bool) -> None:
    """Place orders at the same moment, so that each is decided with others under way."""
    start = threading.Barrier(len(orders))

    def one(item: tuple[Order, str | None]) -> None:
        start.wait(30)
        try:
            placed = cell.claimer.place(item[0])
        except NoValidHost:
            return
        for flow in placed.workflows if deleted else ():

            def free(tx: Transaction, uuid: str = flow.instance_uuid, on: str = str(flow.facts["host"])) -> None:
                release_claim(tx, uuid, item[1], on)
                instances.mark_deleted(tx, uuid)

            cell.database.write(free)

    with ThreadPoolExecutor(len(orders)) as pool:
        list(pool.map(one, orders))


def join_aggregate(database: Database, name: str, host_name: str) -> None:
    def make(tx: Transaction) -> None:
        made = aggregates.create(tx, name)
        aggregates.add_host(tx, made.id, host_name, default_zone="nova")
        aggregates.set_metadata(tx, made.id, {"ram_weight_multiplier": "2.5", "filter_tenant_id": "p"})

    database.write(make)


def come_up(database: Database, host_name: str) -> None:
    database.write(lambda tx: revive(tx, host_name))


def replayed(cell: Cell, engine: Engine = CHANCE, configuration: str = AS_CONFIGURED) -> list[Outcome]:
    cell.database.write(lambda tx: tx.now)  # whatever was queued before is stored by then
    with cell.database.read() as connection:
        found = decisions.find(connection, "req-1")
        return list(replay_all(connection, engine, configuration, found))


def test_every_decision_can_be_made_again_to_the_bit(database: Database, tmp_path: Path) -> None:
    cell, chance = cell_on(database, tmp_path), random.Random(7)
    groups = [cell.add_group(policy) for policy in POLICIES]
    checkpoint(database)
    for turn in range(24):
        asked = []
        for _ in range(chance.randint(1, 3)):
            flavor = Flavor("f", "f", chance.randint(1, 2), 512 * chance.randint(1, 4), chance.randint(1, 4))
            group = chance.choice((None, None, *groups))
            asked.append((order(cell, chance.randint(1, 3), flavor=flavor, group=group), group))
        place(cell, asked, deleted=chance.random() < 0.6)
        name = f"n{chance.randrange(8)}"
        if turn % 5 == 1:
            join_aggregate(database, f"a{turn}", name)
        if turn % 5 == 3:
            if turn % 10 == 3:
                database.write(lambda tx, name=name: silence(tx, name))  # type: ignore[misc]
            else:
                come_up(database, name)
        if turn == 12:
            checkpoint(database)
    outcomes = replayed(cell)
    assert len(outcomes) >= 50
    for outcome in outcomes:
        assert isinstance(outcome, Replay), outcome
        assert outcome.differences == ()
        assert outcome.notes == ()
    assert {bool(outcome.decision.ranked) for outcome in outcomes if isinstance(outcome, Replay)} == {True, False}


def test_what_a_checkpoint_holds_is_what_a_mirror_loads(database: Database, tmp_path: Path) -> None:
    cell = cell_on(database, tmp_path)
    place(cell, [(order(cell, 3, group=group), group) for group in (None, cell.add_group("affinity"))], deleted=False)
    seq = checkpoint(database)
    place(cell, [(order(cell, 2), None)], deleted=True)
    with database.read() as connection:
        kept = checkpoints.find(connection, seq)
        assert kept is not None
        again = Mirror.of(checkpoints.read(connection, kept), kept.seq, now=0.0)
        commits = change_log.between(connection, kept.seq, cell.mirror.seq)
    assert commits
    again.replay(commits)
    assert_equal(again, Mirror.follow(database))


def test_the_log_is_kept_as_far_back_as_the_oldest_checkpoint(database: Database, tmp_path: Path) -> None:
    cell = cell_on(database, tmp_path)
    first = checkpoint(database, kept=2)
    place(cell, [(order(cell), None)], deleted=False)
    database.write(lambda tx: change_log.trim(tx, NO_TIME))
    with database.read() as connection:
        assert connection.execute(sa.select(sa.func.min(t.change_log.c.seq))).scalar_one() > first
    assert isinstance(replayed(cell)[0], Replay)
    for _ in range(2):
        place(cell, [(order(cell), None)], deleted=False)
        checkpoint(database, kept=2)
    database.write(lambda tx: change_log.trim(tx, NO_TIME))
    with database.read() as connection:
        assert len(connection.execute(sa.select(t.checkpoints.c.id)).all()) == 2
    first_outcome, second, third = replayed(cell)
    assert first_outcome == NoReplay("The decision is older than the oldest checkpoint.")
    assert second == first_outcome
    assert isinstance(third, Replay)
    assert third.differences == ()


def test_a_log_with_a_gap_is_not_believed(database: Database, tmp_path: Path) -> None:
    cell = cell_on(database, tmp_path)
    seq = checkpoint(database)
    place(cell, [(order(cell), None)], deleted=True)
    place(cell, [(order(cell), None)], deleted=False)
    database.write(lambda tx: tx.execute(sa.delete(t.change_log).where(t.change_log.c.seq == seq + 1)))
    (*_, last) = replayed(cell)
    assert isinstance(last, NoReplay)
    assert "change log" in last.reason


def test_other_rules_are_noted_and_what_differs_is_told(database: Database, tmp_path: Path) -> None:
    cell = cell_on(database, tmp_path, build_engine(SchedulerConfig()))
    checkpoint(database)
    place(cell, [(order(cell), None)], deleted=False)
    other = build_engine(SchedulerConfig(enabled_filters=("ComputeFilter",), ram_weight_multiplier=-1.0))
    (outcome,) = replayed(cell, other, "another configuration")
    assert isinstance(outcome, Replay)
    assert outcome.notes == ("The scheduling options have been changed since.",)
    assert [text.partition(":")[0] for text in outcome.differences][:2] == ["steps", "ranked"]


def test_a_decision_without_inputs_says_so(database: Database, tmp_path: Path) -> None:
    cell = cell_on(database, tmp_path)
    place(cell, [(order(cell), None)], deleted=False)
    cell.database.write(lambda tx: tx.now)
    with database.read() as connection:
        (stored,) = decisions.find(connection, "req-1")
        (outcome,) = replay_all(connection, CHANCE, "", [replace(stored, inputs=None)])
    assert isinstance(outcome, NoReplay)


def test_one_checkpoint_is_taken_by_whoever_comes_first(database: Database, tmp_path: Path) -> None:
    cell_on(database, tmp_path)
    one, other = (Checkpointer(database, 3) for _ in range(2))
    assert one.take_if_due() is not None
    assert other.take_if_due() is None
    assert Checkpointer(database, 3, commits=20).take_if_due() is None, "few commits since"
    for number in range(25):
        come_up(database, f"n{number % 8}")
        database.write(lambda tx: services.update(tx, services.get_by_host(tx.connection, "n1").uuid, disabled=True))
    assert Checkpointer(database, 3, commits=20).take_if_due() is not None


def test_decisions_that_go_take_their_inputs_along(database: Database, tmp_path: Path) -> None:
    cell = cell_on(database, tmp_path)
    for _ in range(3):
        place(cell, [(order(cell, 2), None)], deleted=True)
    database.write(lambda tx: decisions.trim(tx, 2))
    with database.read() as connection:
        assert len(connection.execute(sa.select(t.circumstances.c.uuid)).all()) == 1
        assert all(stored.inputs for stored in decisions.find(connection, "req-1"))


def test_a_later_server_that_would_find_no_host_now_is_told_as_such(database: Database, tmp_path: Path) -> None:
    cell = cell_on(database, tmp_path, build_engine(SchedulerConfig()))
    checkpoint(database)
    place(cell, [(order(cell, 3), None)], deleted=False)
    nowhere = build_engine(SchedulerConfig(enabled_filters=("NumInstancesFilter",), max_instances_per_host=1))
    kept = replace(nowhere, filters=tuple(replace(each, max_instances_per_host=0) for each in nowhere.filters))
    for outcome in replayed(cell, kept):
        assert isinstance(outcome, Replay)
        assert "survivors: 8, now 0" in outcome.differences
        assert not outcome.decision.ranked
