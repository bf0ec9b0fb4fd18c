# SPDX-License-Identifier: Apache-2.0
import random
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pytest
from tests.unit.scheduler.small_cloud import host, request, table

from kilonova.cli.wiring.rules import build_engine
from kilonova.errors import RuleFailed
from kilonova.model.request_spec import RequestSpec
from kilonova.model.server_group import GroupView
from kilonova.scheduler.decision import SURVIVED
from kilonova.scheduler.engine.batch import Batch
from kilonova.scheduler.engine.engine import Engine
from kilonova.scheduler.filters import AllHostsFilter, NumInstancesFilter, ServerGroupAffinityFilter
from kilonova.scheduler.filters.server_group_anti_affinity import ServerGroupAntiAffinityFilter
from kilonova.scheduler.guests import guest_of
from kilonova.scheduler.host_records import build_host_table
from kilonova.scheduler.host_table import FloatArray, HostTable, Rows
from kilonova.scheduler.nova_compat.adapters import HostFilterAdapter, HostWeigherAdapter
from kilonova.scheduler.resources import with_resources
from kilonova.scheduler.weighers import RAMWeigher
from support.decision_cases import CASES, CONFIG, DecisionCase, fits_afterwards

GROUP = GroupView("group", "anti-affinity", 1, {})


def cloud(*names: str) -> HostTable:
    return table(*(host(name) for name in names))


def placed(batch: Batch, count: int) -> list[str]:
    """Place servers where the batch wants them; return the hosts."""
    hosts = []
    for _ in range(count):
        best = batch.decide().ranked[0]
        batch.place(best.row)
        hosts.append(best.host)
    return hosts


class Picky:
    """A rule written host by host: at most one server a host, and it looks at whoever is left."""

    def host_passes(self, host_state: object, _spec: object) -> bool:
        return host_state.num_instances < 1  # type: ignore[attr-defined,no-any-return]


class Lonely:
    """A weigher written host by host that prefers hosts without servers."""

    def _weigh_object(self, host_state: object, _spec: object) -> float:
        return -float(host_state.num_instances)  # type: ignore[attr-defined]


def test_later_servers_are_only_asked_about_by_rules_whose_answer_can_change() -> None:
    hosts = cloud("a", "b", "c")
    engine = Engine((), (AllHostsFilter(), NumInstancesFilter(max_instances_per_host=1)))
    batch = Batch(engine, hosts, request(), limit=3)
    first = batch.decide()
    assert [step.rule for step in first.steps][-2:] == ["AllHostsFilter", "NumInstancesFilter"]
    batch.place(0)
    later = batch.decide()
    assert [(step.rule, step.hosts_in, step.hosts_out) for step in later.steps if "Placement" not in step.rule] == [
        ("earlier", 3, 3),
        ("NumInstancesFilter", 3, 2),
    ]
    assert [ranked.host for ranked in later.ranked] == ["b", "c"]
    assert later.removed_by.tolist() == [len(later.steps) - 1, SURVIVED, SURVIVED]
    batch.place(1)
    assert batch.decide().removed_by.tolist() == [0, len(later.steps) - 1, SURVIVED]


@dataclass(frozen=True, slots=True)
class FixedScale(RAMWeigher):
    """A weigher whose scale does not change, so that a list of the best hosts lasts."""

    maximum: ClassVar[float | None] = 1e6


@pytest.mark.parametrize("most", [3, 9, 30])
@pytest.mark.parametrize("listed", [4, 5, 9, 30])
@pytest.mark.parametrize("spec", [request(), with_resources(request())], ids=["no resources", "resources"])
def test_a_list_of_the_best_hosts_does_not_change_the_ranking(spec: RequestSpec, listed: int, most: int) -> None:
    chance = random.Random(listed)
    hosts = [host(f"h{row}", used={"MEMORY_MB": 512 * chance.randrange(6)}) for row in range(60)]
    engine = Engine((), (NumInstancesFilter(max_instances_per_host=most),), (FixedScale(),))
    batches = [Batch(engine, table(*hosts).with_own_use(), spec, limit=3, listed=each) for each in (listed, 60)]
    for _ in range(150):
        mine, whole = (batch.decide() for batch in batches)
        assert mine.ranked == whole.ranked
        for batch in batches:
            batch.place(whole.ranked[0].row)


def test_whoever_is_full_makes_room_for_nobody() -> None:
    batch = Batch(Engine((), (NumInstancesFilter(max_instances_per_host=1),)), cloud("a", "b"), request(), limit=1)
    assert placed(batch, 2) == ["a", "b"]
    nobody = batch.decide()
    assert (nobody.ranked, nobody.survivors) == ((), 0)
    assert nobody.rejected == {"NumInstancesFilter": 2}, "whoever is refused is told of all hosts"


def test_rules_written_host_by_host_see_the_servers_before() -> None:
    engine = Engine((), (HostFilterAdapter("Picky", Picky()),), (HostWeigherAdapter("Lonely", Lonely()),))
    assert placed(Batch(engine, cloud("a", "b", "c"), request(), limit=1), 3) == ["a", "b", "c"]
    spread = Engine((), (), (HostWeigherAdapter("Lonely", Lonely()),))
    assert placed(Batch(spread, cloud("a", "b", "c"), request(), limit=1), 5) == ["a", "b", "c", "a", "b"]


def test_the_first_of_an_affinity_group_decides_for_the_others() -> None:
    group = replace(GROUP, policy="affinity")
    engine = Engine((), (ServerGroupAffinityFilter(),), (RAMWeigher(),))
    batch = Batch(engine, cloud("a", "b", "c"), replace(request(), group=group), limit=1)
    assert placed(batch, 3) == ["a", "a", "a"]
    assert batch.spec.group == replace(group, hosts={"a": 3})


def test_hypervisors_of_one_service_host_share_the_places_of_a_group() -> None:
    hosts = table(host("a", node="a1"), host("a", node="a2"), host("b"))
    engine = Engine((), (ServerGroupAntiAffinityFilter(),))
    batch = Batch(engine, hosts, replace(request(), group=GROUP), limit=1)
    assert placed(batch, 2) == ["a", "b"]
    assert not batch.decide().ranked


def test_alternates_are_hosts_that_no_server_of_the_request_got() -> None:
    batch = Batch(Engine((), (), (RAMWeigher(),)), cloud("a", "b", "c", "d"), with_resources(request()), limit=1)
    assert batch.alternates(2, ()) == ()
    chosen = placed(batch, 2)
    assert [each.host for each in batch.alternates(2, chosen)] == ["c", "d"]
    assert [each.host for each in batch.alternates(9, chosen)] == ["c", "d"]


def test_a_weigher_that_breaks_on_a_later_server_is_named() -> None:
    class Breaks:
        def _weigh_object(self, host_state: object, _spec: object) -> float:
            return float("nan") if host_state.num_instances else 1.0  # type: ignore[attr-defined]

    batch = Batch(Engine((), (), (HostWeigherAdapter("Breaks", Breaks()),)), cloud("a", "b"), request(), limit=1)
    batch.decide()
    batch.place(0)
    with pytest.raises(RuleFailed, match="Breaks"):
        batch.decide()


def test_a_rating_that_is_no_number_is_found_where_only_the_host_is_rated_again() -> None:
    class Local(RAMWeigher):
        def weigh(self, hosts: HostTable, spec: RequestSpec, rows: Rows) -> FloatArray:
            ratings = super().weigh(hosts, spec, rows)
            return np.where(hosts.num_instances[rows] > 1, np.nan, ratings)

    batch = Batch(Engine((), (), (Local(),)), cloud("a", "b"), request(), limit=1)
    batch.decide()
    batch.place(0)
    batch.decide()
    batch.place(0)
    with pytest.raises(RuleFailed, match="Local"):
        batch.decide()


@pytest.mark.parametrize("case", CASES, ids=["volume-backed", "full host"])
def test_a_request_for_several_servers_decides_like_several_requests(case: DecisionCase) -> None:
    engine, spec = build_engine(CONFIG), with_resources(case.spec)
    batch = Batch(engine, build_host_table(case.records).with_own_use(), spec, limit=3)
    alone = build_host_table(case.records).with_own_use()
    for expected in case.ours:
        later, single = batch.decide(), engine.decide(alone, spec, limit=3)
        assert (later.ranked[0].host, later.ranked) == (expected, single.ranked)
        batch.place(later.ranked[0].row)
        alone.count_server(later.ranked[0].row, {expected: spec.query.totals}, guest_of(spec))
    assert fits_afterwards(case, case.ours)
    assert not fits_afterwards(case, case.theirs), "the case shows who is better off"
