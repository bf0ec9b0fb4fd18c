# SPDX-License-Identifier: Apache-2.0
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest
from tests.unit.scheduler.small_cloud import aggregate, flavor, host, request, table

from kilonova.errors import RequestFilterFailed, RuleFailed
from kilonova.model.provider import Inventory
from kilonova.model.request_spec import RequestSpec
from kilonova.scheduler.decision import SURVIVED
from kilonova.scheduler.engine.engine import Engine
from kilonova.scheduler.explanations.explain import explain
from kilonova.scheduler.filters import AllHostsFilter, ComputeFilter, ImagePropertiesFilter, NumInstancesFilter
from kilonova.scheduler.host_records import build_host_table
from kilonova.scheduler.host_table import BoolArray, HostTable
from kilonova.scheduler.nova_compat.adapters import HostFilterAdapter
from kilonova.scheduler.request_filters import ComputeStatusFilter, IsolateAggregates, MapAzToPlacementAggregate
from kilonova.scheduler.resources import with_resources
from kilonova.scheduler.weighers import NumInstancesWeigher, RAMWeigher

REQUEST_FILTERS = (MapAzToPlacementAggregate(), ComputeStatusFilter())


@dataclass(frozen=True)
class Named:
    """Keeps the hosts whose names are given."""

    names: frozenset[str]
    run_once: bool = True
    runs_on_rebuild: bool = False
    reason: str = "not named"

    def passes(self, hosts: HostTable, spec: RequestSpec) -> BoolArray:
        return np.array([name in self.names for name in hosts.hosts])


class Asked:
    """A Nova-style filter that remembers whom it was asked about."""

    def __init__(self) -> None:
        self.hosts: list[str] = []

    def host_passes(self, host_state: Any, spec_obj: Any) -> bool:
        self.hosts.append(host_state.host)
        return host_state.host != "b"


def cloud(*names: str, **changes: Any) -> HostTable:
    return table(*(host(name, **changes) for name in names))


def test_each_host_is_counted_under_the_first_rule_that_lost_it() -> None:
    hosts = table(
        host("disabled", traits=frozenset({"COMPUTE_STATUS_DISABLED"}), disabled=True),
        host("full", used={"MEMORY_MB": 7680}),
        host("crowded", num_instances=50),
        host("down", forced_down=True),
        host("elsewhere"),
        host("good"),
        aggregates=(
            aggregate(1, ("disabled", "full", "crowded", "down", "good"), availability_zone="z"),
            aggregate(2, ("elsewhere",), availability_zone="y"),
        ),
    )
    engine = Engine(REQUEST_FILTERS, (ComputeFilter(), NumInstancesFilter()), (RAMWeigher(),))
    decision = engine.decide(hosts, with_resources(request(availability_zone="z")), limit=3)
    assert [ranked.host for ranked in decision.ranked] == ["good"]
    assert decision.rejected == {
        "map_az_to_placement_aggregate": 1,
        "compute_status_filter": 1,
        "Placement: MEMORY_MB": 1,
        "ComputeFilter": 1,
        "NumInstancesFilter": 1,
    }
    rules = [step.rule for step in decision.steps]
    assert [rules[index] for index in decision.removed_by[:5]] == [
        "compute_status_filter",
        "Placement: MEMORY_MB",
        "NumInstancesFilter",
        "ComputeFilter",
        "map_az_to_placement_aggregate",
    ]
    assert decision.removed_by[5] == SURVIVED
    assert decision.survivors == 1
    assert decision.summary().startswith("map_az_to_placement_aggregate: 1 of 6 hosts, compute_status_filter: 1 of 5")
    assert [step.hosts_out for step in decision.steps] == [5, 4, 4, 3, 3, 2, 1]


def test_rules_after_the_last_survivor_are_not_asked() -> None:
    asked = Asked()
    engine = Engine((), (Named(frozenset()), HostFilterAdapter("Asked", asked)), (RAMWeigher(),))
    decision = engine.decide(cloud("a", "b"), request(), limit=1)
    assert [step.rule for step in decision.steps] == ["Named"]
    assert decision.ranked == ()
    assert decision.removed_by.tolist() == [0, 0]
    assert asked.hosts == []


def test_filters_that_go_host_by_host_come_last_and_see_only_who_is_left() -> None:
    asked = Asked()
    engine = Engine((), (HostFilterAdapter("Asked", asked), Named(frozenset({"b", "c"}))))
    decision = engine.decide(cloud("a", "b", "c"), request(), limit=1)
    assert asked.hosts == ["b", "c"]
    assert [step.rule for step in decision.steps] == ["Named", "Asked"]
    assert [ranked.host for ranked in decision.ranked] == ["c"]


def test_the_trace_is_told_who_is_left_after_each_rule() -> None:
    told: list[tuple[str, list[bool]]] = []
    engine = Engine((), (AllHostsFilter(), Named(frozenset({"b"}))))
    engine.decide(cloud("a", "b"), request(), limit=1, trace=lambda step, left: told.append((step.rule, left.tolist())))
    assert told == [("AllHostsFilter", [True, True]), ("Named", [False, True])]


def test_a_cloud_without_hosts_has_none_to_offer() -> None:
    decision = Engine(REQUEST_FILTERS, (ComputeFilter(),), (RAMWeigher(),)).decide(
        build_host_table(()), with_resources(request()), limit=1
    )
    assert (decision.ranked, decision.survivors, decision.rejected) == ((), 0, {})


@pytest.mark.parametrize(
    ("changes", "expected", "rule"),
    [
        ({"ignore_hosts": frozenset({"A", "x"})}, ["b", "b"], "ignore_hosts"),
        ({"tried": (("b", "n1"), ("a", "a"), ("b", "gone"))}, ["b"], "tried_hosts"),
        ({"requested_host": "b"}, ["b", "b"], "requested_destination"),
        ({"requested_host": "B"}, [], "requested_destination"),
        ({"requested_host": "b", "requested_node": "n2"}, ["b"], "requested_destination"),
        ({"requested_node": "n2"}, ["b"], "requested_destination"),
        ({"force_host": "B"}, ["b", "b"], "force_hosts"),
        ({"force_node": "n2"}, ["b"], "force_hosts"),
        ({"force_host": "b", "force_node": "N2"}, [], "force_hosts"),
    ],
)
def test_names_narrow_the_hosts_first(changes: dict[str, Any], expected: list[str], rule: str) -> None:
    hosts = table(host("a"), host("b", node="n1"), host("b", node="n2"))
    decision = Engine((), (AllHostsFilter(),)).decide(hosts, request(**changes), limit=5)
    assert [ranked.host for ranked in decision.ranked] == expected
    assert decision.steps[0].rule == rule


def test_forced_hosts_bypass_filters_but_not_placement() -> None:
    engine = Engine(REQUEST_FILTERS, (Named(frozenset()),), (RAMWeigher(),))
    hosts = table(host("a"), host("full", used={"VCPU": 32}))
    good = engine.decide(hosts, with_resources(request(force_host="a")), limit=1)
    assert [ranked.host for ranked in good.ranked] == ["a"]
    assert good.forced
    full = engine.decide(hosts, with_resources(request(force_host="full")), limit=1)
    assert full.rejected == {"force_hosts": 1, "Placement: VCPU": 1}


def test_a_rebuild_check_asks_only_filters_made_for_it() -> None:
    engine = Engine(REQUEST_FILTERS, (Named(frozenset()), ImagePropertiesFilter()))
    hosts = table(host("a", used={"VCPU": 32}, traits=frozenset({"COMPUTE_STATUS_DISABLED"})))
    spec = with_resources(
        request(properties={"hw_architecture": "x86_64"}, force_host="a", hints={"_nova_check_type": ("rebuild",)})
    )
    decision = engine.decide(hosts, spec, limit=1)
    assert [step.rule for step in decision.steps] == ["force_hosts", "ImagePropertiesFilter"]
    assert decision.ranked == ()
    assert not decision.forced


def test_placement_conditions_of_the_request_have_their_own_steps() -> None:
    hosts = table(
        host("a", traits=frozenset({"GOOD"})),
        host("b"),
        host("c", traits=frozenset({"GOOD", "BAD"})),
        host("d", traits=frozenset({"GOOD"})),
        host("e", traits=frozenset({"GOOD"})),
        aggregates=(aggregate(1, ("a", "b", "c", "d")), aggregate(2, ("d",))),
    )
    spec = request({"trait:GOOD": "required", "trait:BAD": "forbidden"}).with_query(
        member_of=(frozenset({"uuid-1", "unknown"}),), forbidden_aggregates=frozenset({"uuid-2"})
    )
    decision = Engine().decide(hosts, with_resources(spec), limit=5)
    assert [ranked.host for ranked in decision.ranked] == ["a"]
    assert [(step.rule, step.removed) for step in decision.steps[:4]] == [
        ("Placement: member_of", 1),
        ("Placement: member_of", 1),
        ("Placement: GOOD", 1),
        ("Placement: BAD", 1),
    ]


def test_a_class_nobody_has_and_amounts_outside_the_units_find_no_room() -> None:
    odd = (Inventory("VCPU", 100, min_unit=2, max_unit=8, step_size=2),)
    hosts = table(host("odd", inventories=odd), host("plain"))

    def takers(resources: dict[str, int]) -> list[str]:
        spec = request().with_query(resources=resources)
        return [ranked.host for ranked in Engine().decide(hosts, spec, limit=2).ranked]

    assert takers({"VGPU": 1}) == []
    assert takers({"VGPU": 0}) == ["odd", "plain"]
    assert takers({"VCPU": 1}) == ["plain"]
    assert takers({"VCPU": 3}) == ["plain"]
    assert takers({"VCPU": 4}) == ["odd", "plain"]
    assert takers({"VCPU": 10}) == ["plain"]
    assert takers({"VCPU": 33}) == []


def test_reserved_aggregates_are_counted_under_their_request_filter() -> None:
    hosts = table(host("a"), host("b"), aggregates=(aggregate(1, ("a",), **{"trait:X": "required"}),))
    decision = Engine((IsolateAggregates(),)).decide(hosts, request(), limit=2)
    assert decision.rejected == {"isolate_aggregates": 1}


@dataclass(frozen=True)
class Refuses:
    name: ClassVar[str] = "refuses"
    reason: ClassVar[str] = ""

    def apply(self, spec: RequestSpec, aggregates: Any) -> RequestSpec:
        raise RequestFilterFailed("Nothing for you.")


def test_a_request_filter_that_fails_leaves_nobody_and_says_why() -> None:
    decision = Engine((Refuses(), ComputeStatusFilter())).decide(cloud("a"), request(), limit=1)
    assert [(step.rule, step.reason, step.removed) for step in decision.steps] == [("refuses", "Nothing for you.", 1)]
    story = explain(cloud("a"), with_resources(request()), Engine((Refuses(), ComputeStatusFilter())))
    assert story.reasons(0) == (("refuses", "Nothing for you."),)


class Breaks:
    reason = ""
    run_once = runs_on_rebuild = False

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def passes(self, hosts: HostTable, spec: RequestSpec) -> Any:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


class BreaksNova:
    def host_passes(self, host_state: Any, spec_obj: Any) -> bool:
        return bool(host_state.no_such_thing)


@pytest.mark.parametrize(
    "rule",
    [
        Breaks(KeyError("secret host name")),
        Breaks(np.ones(3, dtype=bool)),
        Breaks(np.ones(2)),
        HostFilterAdapter("Breaks", BreaksNova()),
    ],
)
def test_a_filter_that_breaks_is_named_and_nothing_is_decided(rule: Any) -> None:
    with pytest.raises(RuleFailed, match="Filter Breaks failed") as caught:
        Engine((), (rule,)).decide(cloud("a", "b"), request(), limit=1)
    assert "secret" not in caught.value.message


def test_with_one_survivor_no_weigher_runs() -> None:
    decision = Engine((), (), (RAMWeigher(),)).decide(cloud("a"), request(), limit=1)
    assert decision.ranked[0].weights == {}
    assert decision.ranked[0].score == 0


def test_ranked_hosts_carry_each_weighers_share() -> None:
    hosts = table(host("a", used={"MEMORY_MB": 3840}, num_instances=1), host("b"), host("c"))
    engine = Engine((), (Named(frozenset({"a", "b"})),), (RAMWeigher(), NumInstancesWeigher(multiplier=0.25)))
    first, second = engine.decide(hosts, request(), limit=5).ranked
    assert (first.host, first.row, first.score, first.weights) == (
        "b",
        1,
        1.0,
        {"RAMWeigher": 1.0, "NumInstancesWeigher": 0.0},
    )
    assert (second.host, second.score) == ("a", 0.75)
    assert second.weights == {"RAMWeigher": 0.5, "NumInstancesWeigher": 0.25}


def test_equals_go_by_row_and_only_so_many_are_named() -> None:
    decision = Engine((), (), (RAMWeigher(),)).decide(cloud("a", "b", "c"), request(), limit=2)
    assert [ranked.host for ranked in decision.ranked] == ["a", "b"]
    assert decision.survivors == 3
    assert Engine().decide(cloud("a"), request(), limit=0).ranked == ()


def test_shuffling_touches_only_the_best_equals_and_only_with_a_generator() -> None:
    hosts = table(host("worst", used={"MEMORY_MB": 100}), *(host(name) for name in "abcd"))
    engine = Engine((), (), (RAMWeigher(),), shuffle=True)
    plain = [ranked.host for ranked in engine.decide(hosts, request(), limit=5).ranked]
    assert plain == ["a", "b", "c", "d", "worst"]
    seen = set()
    for seed in range(30):
        names = [
            ranked.host for ranked in engine.decide(hosts, request(), limit=5, rng=np.random.default_rng(seed)).ranked
        ]
        assert names[-1] == "worst"
        assert sorted(names[:-1]) == list("abcd")
        seen.add(tuple(names))
    assert len(seen) > 5
    assert len(engine.decide(hosts, request(), limit=2, rng=np.random.default_rng(1)).ranked) == 2


def test_one_of_the_best_few_is_taken_at_random_and_the_rest_stay_in_order() -> None:
    hosts = table(*(host(name, used={"MEMORY_MB": used}) for used, name in enumerate("abcde")))
    engine = Engine((), (), (RAMWeigher(),), host_subset_size=3)
    orders = {
        "".join(
            ranked.host for ranked in engine.decide(hosts, request(), limit=5, rng=np.random.default_rng(seed)).ranked
        )
        for seed in range(40)
    }
    assert orders == {"abcde", "bacde", "cabde"}
    first = {
        engine.decide(hosts, request(), limit=1, rng=np.random.default_rng(seed)).ranked[0].host for seed in range(40)
    }
    assert first == {"a", "b", "c"}
    assert engine.decide(hosts, request(), limit=1).ranked[0].host == "a"


def test_more_steps_than_removed_by_can_name_end_in_the_last() -> None:
    spec = request(flavor=flavor()).with_query(forbidden=frozenset(f"T{number:03}" for number in range(300)))
    hosts = table(host("a", traits=frozenset({"T299"})), host("b", traits=frozenset({"T001"})), host("c"))
    assert Engine().decide(hosts, spec, limit=1).removed_by.tolist() == [254, 1, 255]


def test_an_explanation_asks_every_rule_about_every_host() -> None:
    asked = Asked()
    hosts = table(host("a", num_instances=99), host("b", num_instances=99), host("c"), host("d"))
    engine = Engine((), (HostFilterAdapter("Asked", asked), NumInstancesFilter(), Named(frozenset({"a", "b", "d"}))))
    story = explain(hosts, request(), engine)
    assert [verdict.rule for verdict in story.verdicts] == ["NumInstancesFilter", "Named", "Asked"]
    assert story.reasons(1) == (
        ("NumInstancesFilter", "has reached max_instances_per_host"),
        ("Asked", "the filter's host_passes rejects this host"),
    )
    assert story.reasons(3) == ()
    assert story.passed.tolist() == [False, False, False, True]
    assert story.only_hindrance() == {"NumInstancesFilter": 1, "Named": 1}
    assert asked.hosts == ["a", "b", "c", "d"]
    assert not story.forced


def test_an_explanation_without_rules_hinders_nobody() -> None:
    story = explain(cloud("a"), request(force_host="a"), Engine())
    assert story.forced
    bare = explain(cloud("a"), request(), Engine())
    assert bare.only_hindrance() == {}
    assert bare.passed.tolist() == [True]
