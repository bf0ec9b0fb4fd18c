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
from kilonova.scheduler.decision import Decision
from kilonova.scheduler.depends_on import DependsOn
from kilonova.scheduler.engine.engine import Engine
from kilonova.scheduler.engine.kept_decisions import KeptDecisions, differences
from kilonova.scheduler.host_records import HostRecord, build_host_table
from kilonova.scheduler.host_table import BoolArray, HostTable
from kilonova.scheduler.live_hosts import LiveHosts
from kilonova.scheduler.plug_in_rules import PlugInFilter
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


def test_new_hosts_drop_what_was_kept() -> None:
    asker = Asker(live_of([1024, 1024]))
    asker.ask()
    asker.ask()
    disabled = np.array([True, False])
    asker.live = replace(asker.live, hosts=replace(asker.live.hosts, disabled=disabled))
    assert asker.ask().survivors == 1


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
    assert [key[0][0] for key in asker.kept._shapes] == ["2", "0", "3"]  # type: ignore[index]
    for spec in shapes:
        asker.ask(spec)
    assert [key[0][0] for key in asker.kept._shapes] == ["6", "7", "8"]  # type: ignore[index]


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
