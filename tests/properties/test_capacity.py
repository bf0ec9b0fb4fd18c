# SPDX-License-Identifier: Apache-2.0
"""Capacity equals the number of servers that full decisions place one after the other, and the last refusal's reasons.

The loop that it is compared with is written out here: decide, take the best host that has the devices, count the
server, decide again.
"""

import random
import re
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kilonova.cli.wiring.rules import build_engine
from kilonova.errors import InvalidRequest
from kilonova.model.aggregate import Aggregate
from kilonova.model.host import NODE_TRAITS
from kilonova.model.provider import Inventory
from kilonova.model.request_spec import RequestSpec
from kilonova.model.server_group import GroupView
from kilonova.planning.capacity import capacity
from kilonova.planning.hindrance import Hindrance
from kilonova.scheduler.devices.choice import first_that_gives, needs_of
from kilonova.scheduler.devices.pci_request import read_aliases
from kilonova.scheduler.engine.engine import Engine
from kilonova.scheduler.guests import guest_of
from kilonova.scheduler.host_table import HostTable
from kilonova.scheduler.resources import with_resources
from kilonova.scheduler.settings import SchedulerConfig
from support.device_clouds import ALIASES, some_request
from support.random_clouds import NAMES, random_cloud, random_request
from support.samples import sampled

POLICIES = (None, None, "affinity", "anti-affinity", "soft-affinity", "soft-anti-affinity")
FILTERS = (
    *SchedulerConfig().enabled_filters,
    *("NUMATopologyFilter", "PciPassthroughFilter", "AggregateInstanceExtraSpecsFilter"),
    *("AggregateMultiTenancyIsolation", "ServerGroupAffinityFilter", "ServerGroupAntiAffinityFilter"),
)
ODD_FILTERS = (
    *("NumInstancesFilter", "IoOpsFilter", "AggregateNumInstancesFilter", "AggregateRamFilter", "JsonFilter"),
    *("ExactCoreFilter", "TypeAffinityFilter", "DifferentHostFilter", "SameHostFilter", "AggregateCoreFilter"),
)
PCI = read_aliases(ALIASES)


def engine_of(chance: random.Random) -> Engine:
    more = chance.sample(ODD_FILTERS, chance.choice((0, 0, 1, 2, 3)))
    less = chance.sample(FILTERS, chance.choice((0, 0, 0, 2)))
    config = SchedulerConfig(
        enabled_filters=tuple(dict.fromkeys(each for each in (*FILTERS, *more) if each not in less)),
        max_instances_per_host=chance.choice((5, 20, 50)),
        pci_alias=ALIASES,
    )
    return replace(build_engine(config), pcpu_fallback=chance.random() < 0.7)


def request_of(chance: random.Random) -> RequestSpec:
    if chance.random() < 0.5:
        spec = some_request(chance)
    else:
        spec = random_request(chance)
        spec = replace(spec, tried=(), source_cell=None, instance_uuids=(), group=None)
        if chance.random() < 0.6:
            spec = replace(spec, hints={}, flavor=replace(spec.flavor, extra_specs={}))
    policy = chance.choice(POLICIES)
    if policy is not None:
        members = {name: chance.randrange(3) for name in chance.sample(NAMES, chance.choice((0, 0, 1, 3)))}
        spec = replace(spec, group=GroupView("group", policy, chance.choice((1, 1, 2, 3)), members))
    return spec


def table_of(chance: random.Random) -> HostTable:
    """Return a cloud of a few hosts, most of them up; some hosts have two nodes, some aggregates isolate."""
    cloud = random_cloud(chance, chance.randint(1, 8))
    records = [
        replace(
            record,
            disabled=record.disabled and chance.random() < 0.3,
            forced_down=False,
            last_seen=1_000_000.0,
            num_instances=chance.randrange(6),
            used={"VCPU": chance.randrange(4)},
            traits=record.traits - {"COMPUTE_STATUS_DISABLED"} | set(NODE_TRAITS),
            inventories=(*record.inventories, Inventory("PCPU", chance.randint(1, 8)))
            if chance.random() < 0.3
            else record.inventories,
        )
        for record in cloud.records
    ]
    if chance.random() < 0.2:
        twin = chance.choice(records)
        records.append(replace(twin, node="twin", uuid="twin", instances=()))
    aggregates = [each for each in cloud.aggregates if chance.random() < 0.3]
    if chance.random() < 0.3:
        names = tuple(record.host for record in records if chance.random() < 0.4)
        rule = chance.choice(("project=p", "flavor=m1", "image.os_distro"))
        aggregates.append(Aggregate(90, "u90", "isolated", names, {"kilonova:only": rule}))
    return replace(cloud, records=tuple(records), aggregates=tuple(aggregates)).table()


def created_until_refused(hosts: HostTable, spec: RequestSpec, engine: Engine) -> tuple[int, list[Hindrance]]:
    hosts, spec = hosts.with_own_use(), with_resources(spec)
    needs = needs_of(spec, PCI)
    placed = 0
    while True:
        decision = engine.decide(hosts, spec, limit=10)
        best, share = first_that_gives(decision, hosts, needs)
        if best is None:
            reasons = [Hindrance(step.rule, step.reason, step.removed) for step in decision.steps if step.removed]
            return placed, reasons
        hosts.count_server(best.row, engine.allocations(hosts, spec, best.row), guest_of(spec), share)
        hosts.num_io_ops[best.row] -= 1
        if spec.group is not None:
            spec = replace(spec, group=spec.group.with_members(best.host))
        placed += 1


@settings(deadline=None, max_examples=sampled(3000, sample=150))
@given(seed=st.integers(0, 2**32))
def test_capacity_is_what_create_until_refused_gives(seed: int) -> None:
    chance = random.Random(seed)
    hosts, spec, engine = table_of(chance), request_of(chance), engine_of(chance)
    try:
        expected = created_until_refused(hosts, spec, engine)
    except InvalidRequest as error:
        with pytest.raises(InvalidRequest, match=re.escape(error.message)):
            capacity(hosts, spec, engine, aliases=PCI)
        return
    used, devices = hosts.used.tobytes(), hosts.devices.tobytes()
    found = capacity(hosts, spec, engine, aliases=PCI)
    assert found.fits == expected[0]
    assert [each for each in found.reasons if each.rule != "devices"] == expected[1]
    assert capacity(hosts, spec, engine, aliases=PCI, one_by_one=True) == found
    assert (hosts.used.tobytes(), hosts.devices.tobytes()) == (used, devices), "the given table does not change"


def test_the_random_clouds_have_what_they_are_for() -> None:
    """Servers fit with each policy, with devices, with isolation, and on hosts with two nodes."""
    seen: set[str] = set()
    for seed in range(sampled(1000, sample=300)):
        chance = random.Random(seed)
        hosts, spec, engine = table_of(chance), request_of(chance), engine_of(chance)
        try:
            found = capacity(hosts, spec, engine, aliases=PCI)
        except InvalidRequest:
            continue
        if found.fits:
            seen.add(spec.group.policy if spec.group is not None else "no group")
            seen |= {"devices"} if needs_of(with_resources(spec), PCI) else set()
            seen |= {"isolation"} if hosts.aggregates.isolation is not None else set()
            seen |= {"fallback"} if with_resources(spec).query.fallback is not None else set()
            seen |= {"two nodes"} if len(hosts.rows_of_host()) < len(hosts) else set()
    assert seen == {
        *("no group", "affinity", "anti-affinity", "soft-affinity", "soft-anti-affinity"),
        *("devices", "isolation", "fallback", "two nodes"),
    }
