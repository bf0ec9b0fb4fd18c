# SPDX-License-Identifier: Apache-2.0
"""Decisions of the engine for groups, nested providers and pinned CPUs, without a database."""

from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tests.unit.scheduler.small_cloud import INVENTORIES, aggregate, host, request, table

from kilonova.errors import RuleFailed
from kilonova.model.provider import Inventory
from kilonova.model.request_spec import RequestSpec
from kilonova.placement.provider_table import ProviderRecord, build_provider_table
from kilonova.scheduler.decision import Decision
from kilonova.scheduler.engine.batch import Batch
from kilonova.scheduler.engine.engine import Engine
from kilonova.scheduler.engine.provider_trees import needs_trees
from kilonova.scheduler.explanations.explain import explain
from kilonova.scheduler.guests import guest_of
from kilonova.scheduler.host_table import HostTable
from kilonova.scheduler.request_filters import MapAzToPlacementAggregate
from kilonova.scheduler.resources import with_resources

ISOLATED = {"resources1:VGPU": "1", "resources2:VGPU": "1", "group_policy": "isolate"}
CARDS = (Inventory("VGPU", 2),)


def with_children(hosts: HostTable, *children: ProviderRecord) -> HostTable:
    """Return hosts whose providers have others below them."""
    roots = [ProviderRecord(uuid, None, INVENTORIES) for uuid in hosts.uuids]
    return replace(
        hosts, providers=build_provider_table([*roots, *children]), provider_rows=np.arange(len(hosts), dtype=np.int64)
    )


def asking(extra_specs: dict[str, str], **changes: Any) -> RequestSpec:
    return with_resources(request(extra_specs, **changes))


def takers(decision: Decision) -> list[str]:
    return sorted(each.host for each in decision.ranked)


def two_hosts() -> HostTable:
    """One card with two slices below a, two cards with one free slice each below b."""
    return with_children(
        table(host("a"), host("b")),
        ProviderRecord("a1", "a", CARDS),
        ProviderRecord("b1", "b", CARDS, {"VGPU": 1}, frozenset({"CUSTOM_FAST"})),
        ProviderRecord("b2", "b", CARDS, {"VGPU": 1}),
    )


@pytest.mark.parametrize(
    ("extra_specs", "expected"),
    [
        ({}, ["a", "b"]),
        ({"resources:VGPU": "1"}, ["a", "b"]),
        ({"resources:VGPU": "2"}, ["a"]),
        ({"resources1:VGPU": "2"}, ["a"]),
        ({"resources1:VGPU": "1", "resources2:VGPU": "1"}, ["a", "b"]),
        (ISOLATED, ["b"]),
        ({**ISOLATED, "resources3:VGPU": "1"}, []),
        ({"resources1:VGPU": "1", "trait1:CUSTOM_FAST": "required"}, ["b"]),
        ({"resources:VGPU": "1", "trait:CUSTOM_FAST": "required"}, ["b"]),
        ({"trait:CUSTOM_FAST": "required"}, []),
        ({"resources1:CUSTOM_NOBODY": "1"}, []),
        ({"resources1:VCPU": "4", "resources2:VCPU": "4", "resources3:VGPU": "2"}, ["a"]),
        ({"resources1:VCPU": "32", "resources2:VCPU": "1"}, []),
    ],
)
def test_hosts_are_judged_with_what_is_below_them(extra_specs: dict[str, str], expected: list[str]) -> None:
    assert takers(Engine().decide(two_hosts(), asking(extra_specs), limit=9)) == expected


def test_the_step_says_what_the_providers_cannot_give() -> None:
    hosts = two_hosts()
    spec = asking(ISOLATED)
    decision = Engine().decide(hosts, spec, limit=9)
    assert decision.rejected == {"Placement: providers": 1}
    (step,) = (step for step in decision.steps if step.removed)
    assert step.reason == (
        "its providers cannot give resources:VCPU=1, resources:MEMORY_MB=512, resources:DISK_GB=1, "
        "resources1:VGPU=1, resources2:VGPU=1, each group on a provider of its own"
    )
    assert explain(hosts, spec, Engine()).passed.tolist() == [False, True]


def test_classes_of_the_hosts_alone_need_no_trees() -> None:
    hosts = two_hosts()
    assert not needs_trees(hosts, asking({"resources:VCPU": "2"}).query)
    assert needs_trees(hosts, asking({"resources:VGPU": "1"}).query)
    assert needs_trees(hosts, asking({"resources1:VCPU": "1"}).query)
    assert not needs_trees(table(), asking(ISOLATED).query)


def test_what_is_taken_of_whom() -> None:
    hosts = two_hosts()
    own = {"VCPU": 1, "MEMORY_MB": 512, "DISK_GB": 1}
    assert Engine().allocations(hosts, asking({}), 0) == {"a": own}
    assert Engine().allocations(hosts, asking(ISOLATED), 1) == {"b": own, "b1": {"VGPU": 1}, "b2": {"VGPU": 1}}
    assert Engine().allocations(hosts, asking({"resources1:VCPU": "2", "resources2:VGPU": "2"}), 0) == {
        "a": {**own, "VCPU": 2},
        "a1": {"VGPU": 2},
    }


@pytest.mark.parametrize(
    ("extra_specs", "engine", "able"),
    [
        ({}, Engine(), [True, True]),
        ({"resources:VCPU": "33"}, Engine(), [False, False]),
        (ISOLATED, Engine(), [False, True]),
        ({"hw:cpu_policy": "dedicated"}, Engine(), [True, True]),
        ({"hw:cpu_policy": "dedicated"}, Engine(pcpu_fallback=False), [False, False]),
    ],
)
def test_a_host_that_somebody_else_chose_is_held_to_the_same(
    extra_specs: dict[str, str], engine: Engine, able: list[bool]
) -> None:
    hosts = two_hosts()
    rules = engine.later_room(hosts, asking(extra_specs))
    assert [all(rule.has_room(hosts, row) for rule in rules) for row in range(2)] == able


def test_a_copy_for_a_driver_counts_for_itself() -> None:
    hosts = two_hosts()
    mine = hosts.with_own_use()
    mine.count_server(1, Engine().allocations(mine, asking(ISOLATED), 1), guest_of(asking(ISOLATED)))
    assert Engine().decide(mine, asking(ISOLATED), limit=1).ranked == ()
    assert takers(Engine().decide(hosts, asking(ISOLATED), limit=1)) == ["b"]


@pytest.mark.parametrize(("policy", "expected"), [("none", ["node1"]), ("isolate", [])])
def test_a_host_that_is_one_provider_serves_all_groups_unless_they_are_isolated(
    policy: str, expected: list[str]
) -> None:
    hosts = table(host(inventories=(*INVENTORIES, Inventory("VGPU", 2))))
    spec = asking({"resources1:VGPU": "1", "resources2:VGPU": "1", "group_policy": policy})
    assert takers(Engine().decide(hosts, spec, limit=9)) == expected
    if expected:
        assert Engine().allocations(hosts, spec, 0)["node1"]["VGPU"] == 2


def test_a_zone_leaves_out_what_is_shared_from_outside_of_it() -> None:
    """Conditions of request filters apply to sharing providers, too: each must be in the aggregate of the zone."""
    zone = aggregate(1, ("a",), availability_zone="z")
    shared = frozenset({"MISC_SHARES_VIA_AGGREGATE"})

    def cloud(*aggregates: str) -> HostTable:
        records = [
            ProviderRecord("a", None, INVENTORIES, aggregates=frozenset({"common", zone.uuid})),
            ProviderRecord("s", None, CARDS, {}, shared, frozenset({"common", *aggregates})),
        ]
        hosts = table(host("a"), aggregates=(zone,))
        return replace(hosts, providers=build_provider_table(records), provider_rows=np.array([0]))

    engine = Engine(request_filters=(MapAzToPlacementAggregate(),))
    spec = asking({"resources:VGPU": "1"}, availability_zone="z")
    assert takers(engine.decide(cloud(zone.uuid), spec, limit=9)) == ["a"]
    assert takers(engine.decide(cloud(), spec, limit=9)) == []
    assert engine.allocations(cloud(zone.uuid), spec, 0)["s"] == {"VGPU": 1}


@pytest.mark.parametrize(
    ("extra_specs", "expected"),
    [
        ({"resources:VGPU": "1"}, {"a": 2, "b": 2}),
        ({"resources1:VGPU": "2"}, {"a": 1}),
        (ISOLATED, {"b": 1}),
        ({"hw:cpu_policy": "dedicated", "resources:VGPU": "1"}, {"a": 2, "b": 2}),
        ({"hw:cpu_policy": "dedicated"}, {"a": 15, "b": 15}),
    ],
)
def test_servers_of_one_request_take_what_the_ones_before_left(
    extra_specs: dict[str, str], expected: dict[str, int]
) -> None:
    hosts, alone, spec = two_hosts(), two_hosts(), asking(extra_specs)
    engine = Engine()
    batch = Batch(engine, hosts, spec, limit=1)
    chosen: list[str] = []
    while ranked := batch.decide().ranked:
        assert [each.host for each in engine.decide(alone, spec, limit=1).ranked] == [ranked[0].host]
        alone.count_server(ranked[0].row, engine.allocations(alone, spec, ranked[0].row), guest_of(spec))
        batch.place(ranked[0].row)
        chosen.append(ranked[0].host)
    assert Counter(chosen) == expected
    assert not engine.decide(alone, spec, limit=1).ranked


# --- pinned CPUs ------------------------------------------------------------------------------------------------------

PCPUS = (Inventory("PCPU", 2), *INVENTORIES[1:])


@pytest.mark.parametrize(
    ("fallback", "vcpus", "expected"),
    [(True, 2, {"pinned": "PCPU", "shared": "VCPU"}), (False, 2, {"pinned": "PCPU"}), (True, 3, {"shared": "VCPU"})],
)
def test_pinned_cpus_fall_back_to_shared_ones_where_configured(
    fallback: bool, vcpus: int, expected: dict[str, str]
) -> None:
    hosts = table(host("pinned", inventories=PCPUS), host("shared"), host("none", inventories=INVENTORIES[1:]))
    spec = asking({"hw:cpu_policy": "dedicated"})
    spec = with_resources(replace(spec, flavor=replace(spec.flavor, vcpus=vcpus)))
    engine = Engine(pcpu_fallback=fallback)
    decision = engine.decide(hosts, spec, limit=9)
    assert takers(decision) == sorted(expected)
    for each in decision.ranked:
        amounts = engine.allocations(hosts, spec, each.row)[each.host]
        assert {name for name in amounts if name in {"PCPU", "VCPU"}} == {expected[each.host]}
        assert amounts[expected[each.host]] == vcpus


def test_thread_policies_do_not_hold_for_the_second_query() -> None:
    threads = frozenset({"HW_CPU_HYPERTHREADING"})
    hosts = table(
        host("threads", inventories=PCPUS, traits=threads),
        host("plain", inventories=PCPUS),
        host("shared", traits=threads),
    )
    spec = asking({"hw:cpu_policy": "dedicated", "hw:cpu_thread_policy": "isolate"})
    assert takers(Engine().decide(hosts, spec, limit=9)) == ["plain", "shared"]
    assert takers(Engine(pcpu_fallback=False).decide(hosts, spec, limit=9)) == ["plain"]


def test_a_search_that_takes_too_long_fails_the_decision_and_says_so() -> None:
    """Nobody knows whether a host has room, so none must be said to have none."""
    cards = [ProviderRecord(f"a{number}", "a", (Inventory("VGPU", 7),)) for number in range(14)]
    hosts = with_children(table(host("a")), *cards)
    extra_specs = {f"resources{number}:VGPU": str(3 + number % 3) for number in range(1, 25)}
    with pytest.raises(RuleFailed, match="search for allocation candidates was given up"):
        Engine().decide(hosts, asking({**extra_specs, "group_policy": "none"}), limit=5)
