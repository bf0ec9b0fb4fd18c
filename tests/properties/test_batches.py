# SPDX-License-Identifier: Apache-2.0
"""Batch decisions for the servers of one request equal single decisions in sequence, bit by bit."""

import random
from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from kilonova.cli.wiring.rules import build_engine
from kilonova.model.aggregate import Aggregate
from kilonova.model.flavor import Flavor
from kilonova.model.host import NODE_TRAITS
from kilonova.model.provider import Inventory
from kilonova.model.request_spec import RequestSpec
from kilonova.model.server_group import GroupView
from kilonova.scheduler.engine.batch import Batch
from kilonova.scheduler.engine.engine import Engine
from kilonova.scheduler.guests import guest_of
from kilonova.scheduler.host_records import HostRecord, build_host_table
from kilonova.scheduler.host_table import HostTable
from kilonova.scheduler.nova_compat.adapters import HostFilterAdapter, HostWeigherAdapter
from kilonova.scheduler.resources import with_resources
from kilonova.scheduler.settings import SchedulerConfig
from kilonova.scheduler.weighers.base import BaseHostWeigher
from support.decision_outcomes import outcome
from support.samples import sampled

SERVERS = 14
POLICIES = (None, "affinity", "anti-affinity", "soft-affinity", "soft-anti-affinity")
FILTERS = (
    *SchedulerConfig().enabled_filters,
    *("NumInstancesFilter", "IoOpsFilter", "AggregateNumInstancesFilter", "AggregateRamFilter", "RetryFilter"),
)


class Crowded:
    """Per-host filter whose verdict depends on the number of servers already placed."""

    def host_passes(self, host_state: object, _spec: object) -> bool:
        return host_state.num_instances < 4  # type: ignore[attr-defined,no-any-return]


class Fickle(BaseHostWeigher):
    """Per-host weigher that prefers idle hosts, with a multiplier that is 0 unless the host is nearly empty."""

    def weight_multiplier(self, host_state: object) -> float:
        return 1.5 if host_state.num_instances < 2 else 0.0

    def _weigh_object(self, host_state: object, _properties: object) -> float:
        return -float(host_state.num_instances)


def engine_of(chance: random.Random) -> Engine:
    multipliers = {
        f"{name}_weight_multiplier": chance.choice((1.0, -1.0, 0.0, 0.3))
        for name in ("ram", "cpu", "disk", "io_ops", "num_instances", "soft_affinity", "soft_anti_affinity")
    }
    config = SchedulerConfig(
        enabled_filters=FILTERS,
        max_instances_per_host=chance.choice((2, 5, 50)),
        host_subset_size=chance.choice((1, 1, 3)),
        shuffle_best_same_weighed_hosts=chance.random() < 0.3,
        metrics_weight_setting=chance.choice(((), ("load=-1.0",))),
        metrics_required=chance.random() < 0.5,
        **multipliers,
    )
    engine = build_engine(config)
    if chance.random() < 0.2:
        filters = (*engine.filters, HostFilterAdapter("Crowded", Crowded()))
        engine = replace(engine, filters=filters, weighers=(*engine.weighers, HostWeigherAdapter("Fickle", Fickle())))
    return engine


def records_of(chance: random.Random) -> list[HostRecord]:
    """Return a few hosts with free resources; some have two hypervisor nodes."""
    names = [
        (f"host{number}", f"node{number}-{node}")
        for number in range(chance.randint(1, 9))
        for node in range(chance.choice((1, 1, 1, 2)))
    ]
    return [
        HostRecord(
            host,
            (
                Inventory("VCPU", chance.choice((2, 8)), allocation_ratio=chance.choice((1.0, 4.0))),
                Inventory("MEMORY_MB", 64 * chance.choice((2, 5, 20))),
                Inventory("DISK_GB", 100),
            ),
            node=node,
            uuid=node,
            traits=frozenset(NODE_TRAITS),
            num_instances=chance.randrange(3),
            metrics={"load": chance.random()} if chance.random() < 0.9 else {},
        )
        for host, node in names
    ]


def aggregates_of(chance: random.Random, records: list[HostRecord]) -> tuple[Aggregate, ...]:
    keys = ("ram_weight_multiplier", "cpu_weight_multiplier", "max_instances_per_host", "ram_allocation_ratio")
    made = []
    for number in range(chance.randrange(3)):
        hosts = tuple(dict.fromkeys(record.host for record in records if chance.random() < 0.5))
        metadata = {key: chance.choice(("-1.0", "2", "0", "no number")) for key in keys if chance.random() < 0.4}
        made.append(Aggregate(number, f"uuid-{number}", f"aggregate{number}", hosts, metadata))
    return tuple(made)


@settings(deadline=None, max_examples=sampled(250, sample=80))
@given(seed=st.integers(0, 2**32))
def test_each_server_of_a_batch_gets_what_a_whole_decision_gives_it(seed: int) -> None:
    chance = random.Random(seed)
    engine, records = engine_of(chance), records_of(chance)
    aggregates = aggregates_of(chance, records)
    policy = chance.choice(POLICIES)
    spec = with_resources(RequestSpec(Flavor("1", "m1", 1, 64, 1), instance_uuids=tuple(map(str, range(SERVERS)))))
    if policy is not None:
        members = {record.host: chance.randrange(4) for record in records if chance.random() < 0.3}
        members = {host: count for host, count in members.items() if count}
        spec = replace(spec, group=GroupView("group", policy, chance.choice((1, 2)), members))

    def table() -> HostTable:
        return build_host_table(records, aggregates).with_own_use()

    hosts, rngs = table(), [np.random.default_rng(seed) for _ in range(2)]
    batch = Batch(engine, table(), spec, limit=3, rng=rngs[0], listed=chance.choice((1, 4, 6, 256)))
    for _ in range(SERVERS):
        whole = outcome(lambda spec=spec: engine.decide(hosts, spec, limit=3, rng=rngs[1]))
        later = outcome(batch.decide)
        if isinstance(whole, str) or isinstance(later, str):
            assert later == whole
            return
        assert later.ranked == whole.ranked
        if not whole.ranked:
            return
        row = whole.ranked[0].row
        batch.place(row)
        hosts.count_server(row, {hosts.uuids[row]: spec.query.totals}, guest_of(spec))
        if spec.group is not None:
            spec = replace(spec, group=spec.group.with_members(hosts.hosts[row]))
