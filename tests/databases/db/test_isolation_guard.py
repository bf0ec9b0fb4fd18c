# SPDX-License-Identifier: Apache-2.0
"""Isolation rules and zones that change between decision and claim: the claim is lost and decided again."""

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from kilonova.claims.claimer import Order, Placed
from kilonova.cli.wiring.rules import build_engine
from kilonova.db import aggregates, isolation_guard, moves
from kilonova.db.core import tables as t
from kilonova.db.core.change_log import decode_commit
from kilonova.db.core.transaction import Transaction
from kilonova.db.database import Database
from kilonova.errors import Conflict, NoValidHost
from kilonova.model.flavor import Flavor
from kilonova.scheduler.decision import Decision
from kilonova.scheduler.host_table import HostTable
from kilonova.scheduler.settings import SchedulerConfig
from support.cell import SMALL, Cell, host, start_cell
from support.manual_bus import ManualBus
from support.moves import migration_of, move, servers
from support.orders import hosts_of, order

DB = Flavor("2", "db.tiny", vcpus=1, memory_mib=512, root_gib=1)
RULE = {"kilonova:only": "flavor=db.tiny"}
HOSTS = ("a", "b", "c", "d")

Start = Callable[..., Cell]


class Meddled:
    """An engine during whose first decision something else is written, by this process or by another."""

    def __init__(self) -> None:
        self._engine = build_engine(SchedulerConfig())
        self.meddle: Callable[[str], None] | None = None
        self.chosen: list[str] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    def decide(self, hosts: HostTable, spec: Any, **options: Any) -> Decision:
        decision = self._engine.decide(hosts, spec, **options)
        self.chosen.append(decision.ranked[0].host if decision.ranked else "")
        meddle, self.meddle = self.meddle, None
        if meddle is not None:
            meddle(self.chosen[0])
        return decision


@pytest.fixture
def start(open_database: Callable[[], Database], tmp_path: Path) -> Start:
    """Starts a control process with the hosts that are named."""

    def process(*names: str, engine: Any = None) -> Cell:
        folder = tmp_path / names[0]
        folder.mkdir()
        hosts = tuple(host(name, vcpus=400, memory_mib=400_000, disk_gib=4000) for name in names)
        return start_cell(folder, hosts, bus=ManualBus(), database=open_database(), engine=engine)

    return process


def make_pool(database: Database, *hosts: str, name: str = "pool", **metadata: str) -> int:
    def job(tx: Transaction) -> int:
        made = aggregates.create(tx, name)
        for each in hosts:
            aggregates.add_host(tx, made.id, each, default_zone="nova")
        aggregates.set_metadata(tx, made.id, metadata)
        return made.id

    return database.write(job)


def in_zone(wanted: Order, zone: str) -> Order:
    return replace(wanted, spec=replace(wanted.spec, availability_zone=zone))


def set_rule(pool: int) -> Callable[[Transaction], Any]:
    return lambda tx: aggregates.set_metadata(tx, pool, RULE)


@pytest.fixture
def engine() -> Meddled:
    return Meddled()


@pytest.fixture
def one(start: Start, engine: Meddled) -> Cell:
    return start(*HOSTS, engine=engine)


def meddle_with(engine: Meddled, database: Database, job: Callable[[str], Callable[[Transaction], Any]]) -> list[Any]:
    """Queue a write once a host is chosen, ahead of the claim."""
    futures: list[Future[Any]] = []
    engine.meddle = lambda chosen: futures.append(database.submit(job(chosen)))
    return futures


def test_the_first_rule_there_ever_is_comes_between(one: Cell, engine: Meddled) -> None:
    pool = make_pool(one.database, "a", "b")
    with one.database.read() as connection:
        assert isolation_guard.version(connection) == 0
    written = meddle_with(engine, one.database, lambda _: set_rule(pool))
    wanted = order(one, flavor=DB)
    engine.chosen.clear()
    one.claimer.place(wanted)
    assert [each.result().metadata for each in written] == [RULE]
    assert set(hosts_of(one, wanted.spec.instance_uuids)) <= {"a", "b"}
    assert len(engine.chosen) == 2


def test_a_host_joins_a_pool_between(one: Cell, engine: Meddled) -> None:
    pool = make_pool(one.database, **RULE)
    meddle_with(
        engine, one.database, lambda chosen: lambda tx: aggregates.add_host(tx, pool, chosen, default_zone="nova")
    )
    wanted = order(one)
    one.claimer.place(wanted)
    first, second = engine.chosen
    assert hosts_of(one, wanted.spec.instance_uuids) == [second]
    assert first != second


@pytest.mark.parametrize("leave", ["remove_host", "forget_host"])
def test_a_host_leaves_its_pool_between(one: Cell, engine: Meddled, leave: str) -> None:
    pool = make_pool(one.database, "a", "b", **RULE)

    def job(chosen: str) -> Callable[[Transaction], Any]:
        if leave == "forget_host":
            return lambda tx: aggregates.forget_host(tx, chosen)
        return lambda tx: aggregates.remove_host(tx, pool, chosen, default_zone="nova")

    meddle_with(engine, one.database, job)
    wanted = order(one, flavor=DB)
    one.claimer.place(wanted)
    first, second = engine.chosen
    assert {first, second} == {"a", "b"}
    assert hosts_of(one, wanted.spec.instance_uuids) == [second]


@pytest.mark.parametrize("leave", ["remove_host", "forget_host"])
def test_a_host_leaves_its_zone_between(one: Cell, engine: Meddled, leave: str) -> None:
    pool = make_pool(one.database, "a", "b", availability_zone="east")

    def job(chosen: str) -> Callable[[Transaction], Any]:
        if leave == "forget_host":
            return lambda tx: aggregates.forget_host(tx, chosen)
        return lambda tx: aggregates.remove_host(tx, pool, chosen, default_zone="nova")

    written = meddle_with(engine, one.database, job)
    wanted = in_zone(order(one), "east")
    one.claimer.place(wanted)
    assert [each.exception() for each in written] == [None]
    first, second = engine.chosen
    assert {first, second} == {"a", "b"}
    assert hosts_of(one, wanted.spec.instance_uuids) == [second]


def test_a_zone_gets_another_name_between(one: Cell, engine: Meddled) -> None:
    pools = {name: make_pool(one.database, name, name=f"of {name}", availability_zone="east") for name in "ab"}
    meddle_with(engine, one.database, lambda chosen: lambda tx: aggregates.update(tx, pools[chosen], zone="west"))
    wanted = in_zone(order(one), "east")
    one.claimer.place(wanted)
    first, second = engine.chosen
    assert {first, second} == {"a", "b"}
    assert hosts_of(one, wanted.spec.instance_uuids) == [second]


@pytest.mark.parametrize("switched", [False, True])
def test_neither_side_of_a_move_changes_its_zone(one: Cell, *, switched: bool) -> None:
    """The server is at one side, and its instance says so; it may yet be on the other."""
    (uuid,) = servers(one, on="a")
    wanted = move(one, uuid)
    one.claimer.place(wanted)
    migration = migration_of(one, wanted)
    if switched:
        one.database.write(lambda tx: moves.switch(tx, migration))
    pool = make_pool(one.database, availability_zone="east")
    for name in migration.hosts:
        with pytest.raises(Conflict, match="its instances would move"):
            one.database.write(lambda tx, name=name: aggregates.add_host(tx, pool, name, default_zone="nova"))  # type: ignore[misc]


def test_a_pool_closes_under_a_claim_of_several_servers(one: Cell, engine: Meddled) -> None:
    pool = make_pool(one.database, *HOSTS)
    meddle_with(engine, one.database, lambda _: set_rule(pool))
    wanted = order(one, 3)
    with pytest.raises(NoValidHost):
        one.claimer.place(wanted)
    assert hosts_of(one, wanted.spec.instance_uuids) == [None] * 3


def test_changes_that_isolate_nobody_cost_no_claim(one: Cell, engine: Meddled) -> None:
    pool = make_pool(one.database, "a")
    other = one.database.write(lambda tx: aggregates.create(tx, "other")).id
    one.database.write(set_rule(pool))
    meddle_with(engine, one.database, lambda _: lambda tx: aggregates.set_metadata(tx, other, {"ssd": "true"}))
    wanted = order(one)
    one.claimer.place(wanted)
    assert hosts_of(one, wanted.spec.instance_uuids) == engine.chosen


@pytest.mark.parametrize("kind", ["postgresql", "mariadb"], indirect=True)
def test_another_process_sets_the_rule_between(one: Cell, engine: Meddled, open_database: Any) -> None:
    other: Database = open_database()
    pool = make_pool(one.database, "a", "b")
    engine.meddle = lambda _: other.write(set_rule(pool)) and None
    wanted = order(one, flavor=DB)
    one.claimer.place(wanted)
    assert set(hosts_of(one, wanted.spec.instance_uuids)) <= {"a", "b"}
    assert len(engine.chosen) == 2


def history(database: Database) -> Iterator[tuple[dict[str, Any], list[tuple[str, str]]]]:
    """Return for each commit in order the aggregates before it, and the (server, host) pairs that it placed."""
    pools: dict[str, Any] = {}
    placed: set[str] = set()
    with database.read() as connection:
        rows = connection.execute(sa.select(t.change_log.c.seq, t.change_log.c.body).order_by(t.change_log.c.seq)).all()
    for row in rows:
        changes = decode_commit(row.seq, row.body).changes
        claims = [
            (each.key, each.value.host)
            for each in changes
            if each.kind == "instance" and each.value and each.value.host and each.key not in placed
        ]
        placed |= {uuid for uuid, _ in claims}
        yield dict(pools), claims
        pools |= {each.key: each.value for each in changes if each.kind == "aggregate"}


def test_rules_that_change_all_the_time_hold_for_every_claim(start: Start, kind: str) -> None:
    """The judge is the change log: at the moment of each claim its host was right by the rule of that moment."""
    cells = [start("a", "b", "c", "d")] if kind == "sqlite" else [start("a", "b"), start("c", "d")]
    pool = make_pool(cells[0].database, "a")
    databases = [cell.database for cell in cells]
    stop = threading.Event()

    def change() -> int:
        number = 0
        while not stop.wait(0.01):
            metadata = {"kilonova:only": None if number % 7 == 6 else "flavor=db.tiny"}
            name = HOSTS[number % 3]
            inside = number // 3 % 2 == 0

            def job(
                tx: Transaction, number: int = number, name: str = name, inside: bool = inside, metadata: Any = metadata
            ) -> None:
                if number % 7 in {0, 6}:  # else only hosts come and go
                    aggregates.set_metadata(tx, pool, metadata)
                members = aggregates.get(tx.connection, pool).hosts
                if (name in members) == inside and (len(members) > 1 or not inside):
                    move = aggregates.remove_host if inside else aggregates.add_host
                    move(tx, pool, name, default_zone="nova")

            databases[number % len(databases)].write(job)
            number += 1
        return number

    def place(number: int) -> tuple[Sequence[str], str, bool]:
        cell, flavor = cells[number % len(cells)], (SMALL, DB)[number // 2 % 2]
        wanted = order(cell, 1 + number % 3 // 2, flavor=flavor)
        try:
            done = isinstance(cell.claimer.place(wanted), Placed)
        except NoValidHost:
            done = False  # it lost to so many changes, which is no leak
        return wanted.spec.instance_uuids, flavor.name, done

    with ThreadPoolExecutor(9) as threads:
        changing = threads.submit(change)
        servers = list(threads.map(place, range(60)))
        stop.set()
        assert changing.result() > 5
    flavors = {uuid: flavor for uuids, flavor, _ in servers for uuid in uuids}
    assert sum(done for _, _, done in servers) > 30
    judged = 0
    for pools, claims in history(databases[0]):
        ruled = {name for each in pools.values() if each.metadata for name in each.hosts}
        exists = any(each.metadata for each in pools.values())
        for uuid, name in claims:
            judged += 1
            meets = exists and flavors[uuid] == DB.name
            assert meets == (name in ruled), (flavors[uuid], name, pools)
    assert judged == sum(len(uuids) for uuids, _, done in servers if done)
