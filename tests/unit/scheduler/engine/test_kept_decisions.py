# SPDX-License-Identifier: Apache-2.0
import logging
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
import pytest

from kilonova.cli.wiring.rules import build_engine
from kilonova.model.aggregate import Aggregate
from kilonova.model.flavor import Flavor
from kilonova.model.host import NODE_TRAITS
from kilonova.model.provider import Inventory
from kilonova.model.request_spec import RequestedNetwork, RequestSpec
from kilonova.model.server_group import GroupView
from kilonova.scheduler.aggregate_index import AggregateIndex
from kilonova.scheduler.decision import Decision
from kilonova.scheduler.depends_on import DependsOn
from kilonova.scheduler.engine.engine import Engine
from kilonova.scheduler.engine.kept_decisions import KeptDecisions, differences
from kilonova.scheduler.host_records import HostRecord, build_host_table
from kilonova.scheduler.host_table import BoolArray, HostTable
from kilonova.scheduler.live_hosts import LiveHosts
from kilonova.scheduler.memo import Memo
from kilonova.scheduler.plug_in_rules import PlugInFilter, PlugInRequestFilter
from kilonova.scheduler.resources import with_resources
from kilonova.scheduler.row_changes import RowChanges
from kilonova.scheduler.settings import SchedulerConfig

NOW = 1_000.0
ENGINE = build_engine(SchedulerConfig())
SMALL = with_resources(RequestSpec(Flavor("1", "small", 1, 512, 0), project_id="p"))
BIG = with_resources(RequestSpec(Flavor("2", "big", 4, 2048, 0), project_id="p"))


def live_of(memory: Sequence[int], aggregates: Sequence[Aggregate] = (), *, down: Sequence[int] = ()) -> LiveHosts:
    """Return hosts with the given memory. ``down``: rows of hosts whose service is silent since ``NOW``."""
    records = [
        HostRecord(
            f"h{row}",
            (Inventory("VCPU", 8), Inventory("MEMORY_MB", mib)),
            traits=frozenset(NODE_TRAITS),
            last_seen=NOW,
        )
        for row, mib in enumerate(memory)
    ]
    hosts = build_host_table(records, aggregates, taken_at=NOW)

    def last_seen(now: float) -> np.ndarray:
        seen = np.full(len(hosts), now)
        seen[list(down)] = NOW
        return seen

    return LiveHosts(hosts, RowChanges(len(hosts)), last_seen)


def use(live: LiveHosts, row: int, mib: int) -> None:
    live.hosts.used[row] += [1, mib]
    live.changes.mark(row)


@dataclass
class Asker:
    """Asks kept decisions and the whole engine, and requires equal answers."""

    live: LiveHosts
    engine: Engine = ENGINE
    options: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.kept = KeptDecisions(self.engine, **self.options)

    def ask(self, spec: RequestSpec = SMALL, now: float = NOW) -> Decision:
        decision = self.kept.decide(self.live, now, spec, limit=3)
        assert not differences(decision, self.engine.decide(self.live.at(now), spec, limit=3))
        return decision

    def shape(self) -> object:
        """Return what is kept of the shape that was requested last."""
        return [kept for kept, _ in self.kept._shapes.values()][-1]

    def set_aggregates(self, aggregates: Sequence[Aggregate]) -> None:
        """Change the aggregates of the same hosts."""
        hosts = self.live.hosts
        index = AggregateIndex.of(aggregates, hosts.hosts)
        self.live = replace(self.live, hosts=replace(hosts, aggregates=index, memo=Memo()))


def test_a_shape_is_kept_from_its_first_request_on() -> None:
    asker = Asker(live_of([4096, 8192, 2048]))
    assert [each.host for each in asker.ask().ranked] == ["h1", "h0", "h2"]
    use(asker.live, 1, 7000)
    assert [each.host for each in asker.ask().ranked] == ["h0", "h2", "h1"]
    assert asker.kept.kept == 2


def test_hosts_that_fill_up_and_become_free_again() -> None:
    asker = Asker(live_of([1024, 1024]))
    for row, mib, left in ((0, 0, 2), (0, 1024, 1), (1, 1024, 0), (0, -1024, 1), (1, -1024, 2)):
        use(asker.live, row, mib)
        asker.ask()
        assert asker.ask().survivors == left
    assert asker.kept.kept == 10


def test_an_earlier_decision_does_not_change() -> None:
    asker = Asker(live_of([1024, 1024]))
    asker.ask()
    before = asker.ask()
    use(asker.live, 0, 1024)
    asker.ask()
    assert before.removed_by.tolist() == [255, 255]


def test_a_silent_host_becomes_down_although_nothing_changes() -> None:
    asker = Asker(live_of([1024, 1024], down=[1]))
    for now, left in ((NOW, 2), (NOW + 1, 2), (NOW + 59.9, 2), (NOW + 60.1, 1), (NOW + 61, 1), (NOW + 30, 2)):
        assert asker.ask(now=now).survivors == left
    assert asker.kept.kept == 6


def test_other_hosts_drop_what_was_kept() -> None:
    asker = Asker(live_of([1024, 1024]))
    asker.ask()
    shape = asker.shape()
    asker.live = live_of([1024, 512, 256])
    assert asker.ask().survivors == 2
    assert asker.shape() is not shape


def test_all_rules_judge_a_host_again_whose_service_changes() -> None:
    asker = Asker(live_of([4096, 8192, 1024, 1024, 1024]))
    asker.ask()
    shape = asker.shape()
    for row, left in ((1, 4), (0, 4), (0, 4)):
        disabled = np.arange(5) == row
        asker.live = replace(asker.live, hosts=replace(asker.live.hosts, disabled=disabled))
        use(asker.live, row, 512)
        assert asker.ask().survivors == left
    asker.live = replace(asker.live, hosts=replace(asker.live.hosts, disabled=np.zeros(5, dtype=np.bool_)))
    assert asker.ask().survivors == 5
    assert asker.shape() is shape


def test_only_silent_hosts_are_judged_again_when_they_count_as_down() -> None:
    asker = Asker(live_of([1024] * 5, down=[1]))
    asker.ask()
    shape = asker.shape()
    assert asker.ask(now=NOW + 61).survivors == 4
    assert asker.shape() is shape


def aggregate(number: int, hosts: Sequence[str], **metadata: str) -> Aggregate:
    return Aggregate(number, f"u{number}", f"a{number}", tuple(hosts), metadata)


@pytest.mark.parametrize(
    ("before", "after", "lefts", "is_same"),
    [
        ([aggregate(1, ["h1"])], [aggregate(1, ["h1"], filter_tenant_id="q")], (5, 4), True),
        ([aggregate(1, ["h1"], filter_tenant_id="q")], [aggregate(1, ["h2"], filter_tenant_id="q")], (4, 4), True),
        ([aggregate(1, ["h1"], filter_tenant_id="q")], [], (4, 5), True),
        ([], [aggregate(1, ["h1"], availability_zone="z")], (5, 1), False),
        ([], [aggregate(1, ["h1"], **{"kilonova:only": "project=p"})], (5, 1), False),
        (
            [aggregate(1, ["h1", "h2"], **{"kilonova:only": "project=p"})],
            [
                aggregate(1, ["h1", "h2"], **{"kilonova:only": "project=p"}),
                aggregate(2, ["h3"], **{"kilonova:only": "flavor=small"}),
            ],
            (2, 0),
            False,
        ),
        ([], [aggregate(1, ["h1"], ram_weight_multiplier="-1")], (5, 5), False),
        ([], [aggregate(1, [], filter_tenant_id="q")], (5, 5), True),
    ],
)
def test_all_rules_judge_the_hosts_of_a_changed_aggregate_again(
    before: list[Aggregate], after: list[Aggregate], lefts: tuple[int, int], is_same: bool
) -> None:
    engine = build_engine(SchedulerConfig(enabled_filters=("ComputeFilter", "AggregateMultiTenancyIsolation")))
    asker = Asker(live_of([1024] * 5, before), engine)
    spec = replace(SMALL, availability_zone="z")
    assert asker.ask(spec).survivors == lefts[0]
    shape = asker.shape()
    asker.set_aggregates(after)
    assert asker.ask(spec).survivors == lefts[1]
    assert (asker.shape() is shape) == is_same


@dataclass(frozen=True)
class TraitIfNamed:
    """Request filter that requires a trait while any aggregate has a key."""

    depends_on: ClassVar[DependsOn] = DependsOn.SHARED
    reason: str = "lacks the trait of the aggregates"

    def apply(self, spec: RequestSpec, aggregates: AggregateIndex) -> RequestSpec:
        traits = frozenset(each.metadata["wanted"] for each in aggregates.aggregates if "wanted" in each.metadata)
        return spec.with_query(root_required=spec.query.root_required | traits)


def test_all_hosts_are_judged_again_when_a_request_filter_adds_other_conditions() -> None:
    engine = replace(ENGINE, request_filters=(PlugInRequestFilter("TraitIfNamed", TraitIfNamed()),))
    asker = Asker(live_of([1024] * 5, [aggregate(1, [], wanted=NODE_TRAITS[0])]), engine)
    assert asker.ask().survivors == 5
    asker.set_aggregates([aggregate(1, [], wanted="CUSTOM_A")])
    assert asker.ask().survivors == 0


@dataclass(frozen=True)
class Weekly:
    """Filter that rejects all hosts from a moment on."""

    depends_on: ClassVar[DependsOn] = DependsOn.TIME
    until: float | None = NOW + 5

    def passes(self, hosts: HostTable, _spec: RequestSpec) -> BoolArray:
        return np.full(len(hosts), self.until is None or hosts.taken_at < self.until)

    def unchanged_until(self, hosts: HostTable) -> float:
        assert self.until is not None
        return self.until if hosts.taken_at < self.until else float("inf")


def test_a_third_party_filter_may_depend_on_the_time() -> None:
    asker = Asker(live_of([1024] * 3), replace(ENGINE, filters=(PlugInFilter("Weekly", Weekly()),)))
    assert [asker.ask(now=NOW + late).survivors for late in (0, 4.9, 5, 6, 4)] == [3, 3, 0, 0, 3]
    assert asker.kept.kept == 5
    broken = Asker(live_of([1024] * 3), replace(ENGINE, filters=(PlugInFilter("Weekly", Weekly(None)),)))
    assert broken.ask().survivors == 3
    assert broken.kept.kept == 0


@pytest.mark.parametrize(
    "change",
    [
        {"force_host": "h0"},
        {"requested_host": "h0"},
        {"ignore_hosts": frozenset({"h0"})},
        {"tried": (("h0", "h0"),)},
        {"networks": (RequestedNetwork("n", "direct", port_id="p"),)},
        {"group": GroupView("g", "anti-affinity", 1, {"h0": 1})},
    ],
)
def test_a_request_with_names_is_decided_in_full(change: dict[str, Any]) -> None:
    asker, spec = Asker(live_of([1024, 1024])), replace(SMALL, **change)
    for _ in range(3):
        asker.ask(spec)
    assert asker.kept.kept == 0


def test_plain_ports_of_any_network_share_a_shape() -> None:
    asker = Asker(live_of([1024, 1024]))
    for number in range(4):
        asker.ask(replace(SMALL, networks=(RequestedNetwork(f"n{number}", port_id=f"p{number}"),)))
    assert len(asker.kept._shapes) == 1


def test_hints_that_name_servers_are_decided_in_full_if_a_rule_reads_them() -> None:
    spec = replace(SMALL, hints={"different_host": ("i1",)})
    for filters, kept in (("DifferentHostFilter", 0), ("ComputeFilter", 3)):
        asker = Asker(live_of([1024]), build_engine(SchedulerConfig(enabled_filters=(filters,))))
        for _ in range(3):
            asker.ask(spec)
        assert asker.kept.kept == kept


def test_projects_share_a_shape_unless_an_aggregate_names_them() -> None:
    named = Aggregate(1, "u1", "a", ("h0",), {"filter_tenant_id": "q,r"})
    engine = build_engine(SchedulerConfig(enabled_filters=("AggregateMultiTenancyIsolation",)))
    asker = Asker(live_of([1024, 1024], [named]), engine)
    left = [asker.ask(replace(SMALL, project_id=project)).survivors for project in ("p", "q", "x", "q", "y")]
    assert left == [1, 2, 1, 2, 1]
    assert len(asker.kept._shapes) == 2


def test_the_least_recently_requested_shape_goes_first() -> None:
    asker = Asker(live_of([8192] * 5), options={"most_bytes": 10_000})
    shapes = [with_resources(replace(SMALL, flavor=replace(SMALL.flavor, flavor_id=str(n)))) for n in range(9)]
    for number in (0, 1, 2, 0, 3):
        asker.ask(shapes[number])
    assert [key[0][0][0] for key in asker.kept._shapes] == ["2", "0", "3"]  # type: ignore[index]
    for spec in shapes:
        asker.ask(spec)
    assert [key[0][0][0] for key in asker.kept._shapes] == ["6", "7", "8"]  # type: ignore[index]


@dataclass(frozen=True)
class Silent:
    """Filter that does not say what it depends on."""

    def passes(self, hosts: HostTable, _spec: RequestSpec) -> BoolArray:
        return hosts.num_instances < 2


@dataclass(frozen=True)
class Lying(Silent):
    """Filter that depends on rows, but says that it does not."""

    depends_on: ClassVar[DependsOn] = DependsOn.SHARED


def test_a_rule_that_says_nothing_is_asked_in_full() -> None:
    asker = Asker(live_of([1024]), replace(ENGINE, filters=(PlugInFilter("Silent", Silent()),)))
    for count in range(4):
        asker.live.hosts.num_instances[0] = count
        assert asker.ask().survivors == (count < 2)
    assert asker.kept.kept == 0


def test_a_check_finds_a_rule_that_does_not_say_what_it_depends_on(caplog: pytest.LogCaptureFixture) -> None:
    engine = replace(ENGINE, filters=(PlugInFilter("Lying", Lying()),))
    asker = Asker(live_of([1024]), engine, {"check": True})
    asker.ask()
    asker.ask()
    asker.live.hosts.num_instances[0] = 2
    asker.live.changes.mark(0)
    with caplog.at_level(logging.ERROR):
        assert asker.ask().survivors == 0
    assert asker.kept.differences == 1
    assert "A kept decision differs" in caplog.text
    assert "survivors: 1, not 0" in caplog.text


def test_more_changes_than_are_logged() -> None:
    asker = Asker(live_of([1024 * (1 + row % 7) for row in range(5000)]))
    for spec in (SMALL, BIG, SMALL, BIG):
        asker.ask(spec)
    for row in range(5000):
        use(asker.live, row, 512)
    assert asker.ask(SMALL).survivors == asker.ask(SMALL).survivors
    asker.ask(BIG)
