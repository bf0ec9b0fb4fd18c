# SPDX-License-Identifier: Apache-2.0
"""Histories of stored decisions: random requests, deletions and changes of a cloud, with checkpoints in between.

:func:`by_hand` repeats decisions independently of the code under test: for each request, a mirror of its own from the
checkpoint, the whole engine for each server, and no kept verdicts.
"""

import random
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TypeVar

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from kilonova.claims.checkpointer import Checkpointer
from kilonova.claims.claimer import Order
from kilonova.claims.decision_inputs import DecisionInputs, decode
from kilonova.conductor.workflows.release import release_claim
from kilonova.db import aggregates, checkpoints, instances, services
from kilonova.db.change_log.changes import Change
from kilonova.db.core import change_log
from kilonova.db.core import tables as t
from kilonova.db.core.transaction import Transaction
from kilonova.errors import NoValidHost, UnsupportedPolicy
from kilonova.mirror.mirror import Mirror
from kilonova.model.flavor import Flavor
from kilonova.model.request_spec import RequestSpec
from kilonova.scenario.model import SimulatedHost
from kilonova.scheduler.devices.choice import first_that_gives, needs_of
from kilonova.scheduler.engine.engine import Engine
from kilonova.scheduler.engine.group_policies import group_for, require_support
from kilonova.scheduler.guests import guest_of
from kilonova.scheduler.resources import with_resources
from support.cell import Cell, host
from support.orders import order

POLICIES = ("affinity", "anti-affinity", "soft-anti-affinity")
SPECS: tuple[Mapping[str, str], ...] = ({}, {}, {"aggregate_instance_extra_specs:ssd": "true"})
FLAVORS = tuple(
    Flavor(f"{size}{number}", f"m{size}.{number}", size, 512 * size, size, extra_specs=specs)
    for size in (1, 2)
    for number, specs in enumerate(SPECS)
)


def some_hosts(chance: random.Random, count: int) -> tuple[SimulatedHost, ...]:
    """Return hosts of random sizes."""
    return tuple(
        host(f"n{n}", vcpus=chance.randint(2, 9), memory_mib=1024 * chance.randint(4, 16), disk_gib=50)
        for n in range(count)
    )


def checkpoint(cell: Cell, kept: int = 1_000) -> int:
    """Take a checkpoint now, and return its commit."""
    seq = Checkpointer(cell.database, kept, every=timedelta(0)).take_if_due()
    assert seq is not None
    return seq


@dataclass
class History:
    """A random history on a cell. ``largest``: most servers of a request. ``deleted``: share of deleted requests."""

    cell: Cell
    chance: random.Random
    largest: int = 3
    turn: int = 0
    deleted: float = 0.6

    def __post_init__(self) -> None:
        self.groups = [self.cell.add_group(policy) for policy in POLICIES]
        self.aggregates: list[int] = []
        checkpoint(self.cell)

    def run(self, turns: int) -> None:
        """Place up to three requests in each turn at the same moment, and change the cloud between the turns."""
        for _ in range(turns):
            self.turn += 1
            self._place([self._order() for _ in range(self.chance.randint(1, 3))])
            self._change()
        self.cell.database.write(lambda tx: tx.now)  # what is stored in the background is stored by then

    def _order(self) -> tuple[Order, str | None]:
        group = self.chance.choice((None, None, *self.groups))
        made = order(self.cell, self.chance.randint(1, self.largest), flavor=self.chance.choice(FLAVORS), group=group)
        zone = self.chance.choice((None, None, None, "a"))
        project = self.chance.choice(("p", "q"))
        return replace(made, spec=replace(made.spec, availability_zone=zone, project_id=project)), group

    def _place(self, orders: Sequence[tuple[Order, str | None]]) -> None:
        start = threading.Barrier(len(orders))
        are_deleted = [self.chance.random() < self.deleted for _ in orders]

        def one(item: tuple[Order, str | None], is_deleted: bool) -> None:
            start.wait(30)
            try:
                placed = self.cell.claimer.place(item[0])
            except NoValidHost:
                return
            for flow in placed.workflows if is_deleted else ():

                def free(tx: Transaction, uuid: str = flow.instance_uuid, on: str = str(flow.facts["host"])) -> None:
                    release_claim(tx, uuid, item[1], on)
                    instances.mark_deleted(tx, uuid)

                self.cell.database.write(free)

        with ThreadPoolExecutor(len(orders)) as pool:
            list(pool.map(one, orders, are_deleted))

    def _change(self) -> None:
        name = self.chance.choice(self.cell.hosts).name
        database = self.cell.database
        if self.turn % 7 == 1 and len(self.aggregates) < 4:
            data = self.chance.choice(({"ssd": "true"}, {"filter_tenant_id": "p"}, {"ram_weight_multiplier": "-2.0"}))
            self.aggregates.append(self._aggregate(name, data))
        elif self.turn % 7 == 4:
            is_disabled = self.chance.random() < 0.5
            database.write(
                lambda tx: services.update(tx, services.get_by_host(tx.connection, name).uuid, disabled=is_disabled)
            )
        elif self.turn % 50 == 30:
            checkpoint(self.cell)

    def _aggregate(self, name: str, data: dict[str, str]) -> int:
        def make(tx: Transaction) -> int:
            made = aggregates.create(tx, f"a{self.turn}")
            aggregates.add_host(tx, made.id, name, default_zone="nova")
            aggregates.set_metadata(tx, made.id, data)
            return made.id

        return self.cell.database.write(make)


Edit = Callable[[Sequence[Change]], Sequence[Change]]
Asked = Callable[[RequestSpec], RequestSpec]
T = TypeVar("T")


def _as_it_is(value: T) -> T:
    return value


def by_hand(
    connection: Connection, engine: Engine, *, edit: Edit = _as_it_is, asked: Asked = _as_it_is
) -> dict[int, str | None]:
    """Return the id of each stored decision with inputs → the host that the engine chooses for its server."""
    joined = sa.select(t.decisions, t.circumstances.c.body.label("inputs")).join(
        t.circumstances, t.circumstances.c.uuid == t.decisions.c.circumstances_id
    )
    requests: dict[str, list[sa.Row[tuple[object, ...]]]] = {}
    for row in connection.execute(joined.order_by(t.decisions.c.id)):
        requests.setdefault(row.circumstances_id, []).append(row)
    found: dict[int, str | None] = {}
    for rows in requests.values():
        inputs, _ = decode(rows[0].inputs)
        refused = any(row.body["chosen"] is None for row in rows)
        known = max(row.server_index for row in rows) + 1
        count = max(known, len(inputs.spec.instance_uuids)) if refused else known
        hosts = _placed(connection, engine, inputs, asked(inputs.spec), count, edit)
        found |= {row.id: None if None in hosts else hosts[row.server_index] for row in rows}
    return found


def _placed(
    connection: Connection, engine: Engine, inputs: DecisionInputs, spec: RequestSpec, count: int, edit: Edit
) -> list[str | None]:
    begun = checkpoints.find(connection, inputs.seq)
    assert begun is not None
    commits = change_log.between(connection, begun.seq, inputs.seq)
    assert commits is not None
    mirror = Mirror.of(edit(tuple(checkpoints.read(connection, begun))), begun.seq, now=inputs.taken_at)
    mirror.replay([replace(commit, changes=tuple(edit(commit.changes))) for commit in commits])
    for assumption in inputs.assumed:
        mirror.assume(assumption)
    try:
        return _chosen(mirror, engine, inputs, spec, count)
    except (UnsupportedPolicy, NoValidHost):
        return [None]


def _chosen(mirror: Mirror, engine: Engine, inputs: DecisionInputs, spec: RequestSpec, count: int) -> list[str | None]:
    spec, hosts = with_resources(spec), mirror.hosts_apart().with_own_use()
    needs = needs_of(spec, {})
    if inputs.group_uuid is not None:
        spec = replace(spec, group=group_for(spec, mirror.group(inputs.group_uuid), hosts))
    if spec.group is not None:
        require_support(engine, spec.group.policy)
    chosen: list[str | None] = []
    for _ in range(count):
        best, share = first_that_gives(engine.decide(hosts, spec, limit=10), hosts, needs)
        chosen.append(None if best is None else best.host)
        if best is None:
            break
        hosts.count_server(best.row, engine.allocations(hosts, spec, best.row), guest_of(spec), share)
        if spec.group is not None:
            spec = replace(spec, group=spec.group.with_members(best.host, 1))
    return chosen
