# SPDX-License-Identifier: Apache-2.0
"""A forecast: one workload, decided by several policies one after the other, each on hosts of its own."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Any

from kilonova.model.server_group import GroupView
from kilonova.planning.forecast.draws import Purpose, generator
from kilonova.planning.forecast.host_events import all_hosts, with_failures
from kilonova.planning.forecast.report import report_of
from kilonova.planning.forecast.run import Outcome, Policy, Surroundings, run
from kilonova.planning.forecast.scenario import Scenario
from kilonova.planning.forecast.server_kinds import Kinds
from kilonova.planning.forecast.virtual_cloud import Held
from kilonova.planning.forecast.workload import Servers, Workload, workload
from kilonova.records import dataclass
from kilonova.scheduler.host_table import HostTable


@dataclass(frozen=True, slots=True, kw_only=True)
class Beginning:
    """The cloud at the beginning. ``hosts``: its hosts, up or down for the whole time.

    ``kinds``: the kinds of servers that can be named, and those of the servers here. ``present``: servers that exist
    already; ``held``: number of such a server → the row of its host, and what it holds. ``traces``: further servers,
    which arrive. ``groups``: the groups that these servers number.
    """

    hosts: HostTable
    kinds: Kinds
    present: Servers | None = None
    held: Mapping[int, tuple[int, Held]] = field(default_factory=dict)
    traces: Sequence[Servers] = ()
    groups: Sequence[GroupView] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Forecast:
    """The result: the workload, and the outcome of each policy."""

    scenario: Scenario
    workload: Workload
    outcomes: tuple[Outcome, ...]

    def report(self) -> dict[str, Any]:
        """Return the report, JSON-ready."""
        return report_of(self.scenario, self.workload, self.outcomes)


def forecast(
    scenario: Scenario,
    beginning: Beginning,
    policies: Sequence[Policy],
    *,
    clock_ns: Callable[[], int],
    progress: Callable[[float, str], None] = lambda _done, _text: None,
) -> Forecast:
    """Run a scenario under each policy.

    ``clock_ns``: measures the time that decisions take. ``progress``: is told the share done; may raise, to stop.
    Raises: ScenarioError, InvalidRequest, DecisionsDiffer, RuleFailed.
    """
    progress(0.0, "drawing the workload")
    hosts = beginning.hosts
    every, events = all_hosts(scenario, hosts)
    if scenario.failures is not None:
        chance = generator(scenario.seed, Purpose.FAILURES)
        events = with_failures(events, scenario.failures, len(hosts), scenario.length_s, chance)
    load = workload(
        scenario,
        beginning.kinds,
        events,
        generator(scenario.seed, Purpose.WORKLOAD),
        beginning.traces,
        beginning.present,
        beginning.groups,
    )
    outcomes = []
    for number, policy in enumerate(policies):

        def tell(done: float, number: int = number, name: str = policy.name) -> None:
            progress((number + done) / len(policies), f"policy {name}")

        around = Surroundings(
            aliases=beginning.kinds.catalog.aliases,
            interval_s=scenario.interval_s,
            clock_ns=clock_ns,
            progress=tell,
        )
        chance = generator(scenario.seed, Purpose.RUN)
        outcomes.append(run(hosts, every, load, policy, around, chance, beginning.held))
    return Forecast(scenario, load, tuple(outcomes))
