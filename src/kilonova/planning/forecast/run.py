# SPDX-License-Identifier: Apache-2.0
"""A run: one policy decides the whole workload in virtual time.

::

    event ──▶ arrival:   kept decision ──▶ place, or count the rule that removed the last host
          ├─▶ departure: take off
          ├─▶ resize:    the engine's decision of a resize ──▶ other kind, other host
          └─▶ failure:   host down ──▶ evacuations; repair ──▶ host up

Every arrival is decided by all rules of the policy. Servers are active at once: no operation is ever in progress.
"""

import math
from collections.abc import Callable, Mapping

import numpy as np

from kilonova.errors import KilonovaError
from kilonova.model.ability import Ability
from kilonova.model.request_spec import RequestSpec
from kilonova.model.server_migration import MoveKind
from kilonova.planning.forecast.observations import Counts, Interval, requests_of, usage
from kilonova.planning.forecast.virtual_cloud import Held, VirtualCloud, largest_first
from kilonova.planning.forecast.workload import NONE, Event, Numbers, Workload
from kilonova.planning.hindrance import DEVICES
from kilonova.records import dataclass, replace
from kilonova.scheduler.decision import Decision
from kilonova.scheduler.devices.choice import RANKED_KEPT, first_that_gives
from kilonova.scheduler.devices.pci_request import Alias
from kilonova.scheduler.engine.engine import Engine
from kilonova.scheduler.engine.kept_decisions import KeptDecisions, differences
from kilonova.scheduler.host_table import HostTable, IntArray
from kilonova.scheduler.rule import rule_name

_MOST_CHECKED = 1_000
_TOLD_EVERY = 1_000


class DecisionsDiffer(KilonovaError):
    """A decision from kept verdicts differs from the whole engine's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """A policy to try. ``resize_in_place``: whether a resize may stay on its host."""

    name: str
    engine: Engine
    resize_in_place: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What a run needs besides hosts, workload and policy.

    ``clock_ns``: measures the time of decisions. ``progress``: is told the share done; may raise, to stop the run.
    """

    aliases: Mapping[str, Alias]
    interval_s: float
    clock_ns: Callable[[], int]
    progress: Callable[[float], None] = lambda _done: None


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """The result of one run.

    ``first_row``: the row of the first host of each server, -1 if it was refused. ``checked``: number of decisions
    compared with the whole engine. ``kept``: number of decisions from kept verdicts. ``first_refused``: flavor → time
    of the first refusal. ``decision_ns``: the time that the decision of each arrival took.
    """

    policy: str
    intervals: tuple[Interval, ...]
    first_row: Numbers
    checked: int
    kept: int
    first_refused: Mapping[str, float]
    decision_ns: IntArray


def run(
    start: HostTable,
    every: HostTable,
    workload: Workload,
    policy: Policy,
    around: Surroundings,
    rng: np.random.Generator,
    held: Mapping[int, tuple[int, Held]] | None = None,
) -> Outcome:
    """Run a workload under one policy. ``start``, ``every``: the hosts of the beginning, and of all times.

    Of the arrivals, 1,000 are drawn; their decisions are compared with those of the whole engine, bit for bit.
    Raises: DecisionsDiffer; RuleFailed; what ``around.progress`` raises.
    """
    cloud = VirtualCloud(start, every, policy.engine, workload, held)
    running = _Run(cloud, workload, policy, around, rng)
    intervals = []
    asked = requests_of(cloud)
    for until, first, last in _intervals(workload, around.interval_s):
        running.counts = Counts()
        running.handle(first, last)
        hosts = cloud.hosts
        measured = usage(cloud, until, asked, around.aliases)
        down = int(np.count_nonzero(hosts.forced_down))
        servers = int(np.count_nonzero(cloud.row_of != NONE))
        intervals.append(Interval(until, running.counts, len(hosts), down, servers, measured))
    return Outcome(
        policy.name,
        tuple(intervals),
        running.first_row,
        running.checked,
        running.kept.kept,
        running.first_refused,
        running.taken_ns[: running.arrived],
    )


def _intervals(workload: Workload, interval_s: float) -> list[tuple[float, int, int]]:
    """Return (end, first event, event after the last) of each interval."""
    count = max(1, math.ceil(workload.length_s / interval_s - 1e-9))
    ends = [min(interval_s * number, workload.length_s) for number in range(1, count + 1)]
    ends[-1] = workload.length_s
    places = np.searchsorted(workload.time, ends, side="left").tolist()
    return list(zip(ends, [0, *places[:-1]], places, strict=True))


class _Run:
    def __init__(
        self, cloud: VirtualCloud, workload: Workload, policy: Policy, around: Surroundings, rng: np.random.Generator
    ) -> None:
        self.cloud, self.workload, self.policy = cloud, workload, policy
        self.kept = KeptDecisions(policy.engine)
        self.counts = Counts()
        self.first_row = np.full(len(workload.servers), NONE, dtype=np.int32)
        self.first_refused: dict[str, float] = {}
        self._around = around
        drawn, self._chance = rng.spawn(2)
        arriving = len(workload.servers) - workload.present
        chosen = drawn.choice(arriving, size=min(arriving, _MOST_CHECKED), replace=False) + workload.present
        self._to_check = frozenset(chosen.tolist())
        self.checked = self.arrived = 0
        self.taken_ns = np.zeros(arriving, dtype=np.int64)
        self._all_rebuild = all(profile.can(Ability.REBUILD) for profile in cloud.hosts.profiles)
        self._sees_failures = any(rule_name(rule) == "ComputeFilter" for rule in policy.engine.filters)

    def handle(self, first: int, last: int) -> None:
        """Handle a range of events."""
        load = self.workload
        count = len(load.time)
        for begin in range(first, last, _TOLD_EVERY):
            self._around.progress(begin / count)
            some = slice(begin, min(begin + _TOLD_EVERY, last))
            events = zip(load.time[some].tolist(), load.event[some].tolist(), load.subject[some].tolist(), strict=True)
            for time, event, subject in events:
                if event == Event.ARRIVE:
                    self._arrive(subject, time)
                elif event == Event.LEAVE:
                    self._leave(subject)
                elif event == Event.RESIZE:
                    self._resize(subject, time)
                elif event == Event.FAIL:
                    self._fail(subject, time)
                elif event == Event.REPAIR:
                    self.cloud.set_down(subject, is_down=False)
                else:
                    self.cloud.grow(load.hosts.sizes[subject])

    # --- events -------------------------------------------------------------------------------------------------------

    def _arrive(self, server: int, time: float) -> None:
        cloud, counts = self.cloud, self.counts
        number = int(cloud.kind_of[server])
        kind = cloud.kinds[number]
        group = cloud.group_of(server)
        spec = kind.spec if group is None else replace(kind.spec, group=group)
        limit = RANKED_KEPT if kind.needs else 1
        began = self._around.clock_ns()
        if server in self._to_check:
            decision = self._checked(spec, time, limit)
        else:
            decision = self.kept.decide(cloud.live, cloud.now(time), spec, limit=limit, rng=self._rng)
        self.taken_ns[self.arrived] = self._around.clock_ns() - began
        self.arrived += 1
        counts.arrived += 1
        best, share = first_that_gives(decision, cloud.hosts, kind.needs)
        if best is None:
            rule = DEVICES if decision.ranked or not decision.steps else decision.steps[-1].rule
            counts.refused[rule] += 1
            counts.refused_flavors[kind.spec.flavor.name] += 1
            self.first_refused.setdefault(kind.spec.flavor.name, time)
            return
        counts.accepted += 1
        self.first_row[server] = best.row
        cloud.place(server, number, best.row, share)

    def _leave(self, server: int) -> None:
        if self.cloud.row_of[server] != NONE:
            self.cloud.take_off(server)
            self.counts.left += 1

    def _resize(self, server: int, time: float) -> None:
        cloud = self.cloud
        row = int(cloud.row_of[server])
        if row == NONE or cloud.hosts.forced_down[row]:
            return
        own = cloud.hosts.hosts[row]
        number = int(self.workload.servers.resized_to[server])
        leaving = () if self.policy.resize_in_place else (own,)
        spec = cloud.kinds[number].spec.moving(MoveKind.RESIZE, f"server-{server}", leaving=leaving)
        if self._move(server, number, self._in_group(spec, server), time):
            self.counts.resized += 1
        else:
            self.counts.resizes_refused += 1

    def _fail(self, row: int, time: float) -> None:
        cloud, counts = self.cloud, self.counts
        cloud.set_down(row, is_down=True)
        counts.failures += 1
        if not self.workload.hosts.evacuates:
            return
        for server in largest_first(cloud.kinds, cloud.kind_of, cloud.servers_on(row)):
            number = int(cloud.kind_of[server])
            if self._move(server, number, self._evacuation(server, row), time):
                counts.evacuated += 1
            else:
                counts.left_over += 1

    # --- decisions ----------------------------------------------------------------------------------------------------

    @property
    def _rng(self) -> np.random.Generator | None:
        return self._chance if self.policy.engine.takes_chances else None

    def _checked(self, spec: RequestSpec, time: float, limit: int) -> Decision:
        """Return a decision after comparing it with the whole engine's. Raises: DecisionsDiffer."""
        cloud, rng = self.cloud, self._rng
        before = self._chance.bit_generator.state
        decision = self.kept.decide(cloud.live, cloud.now(time), spec, limit=limit, rng=rng)
        after = self._chance.bit_generator.state
        self._chance.bit_generator.state = before
        whole = self.policy.engine.decide(cloud.live.at(cloud.now(time)), spec, limit=limit, rng=rng)
        if found := differences(decision, whole):
            raise DecisionsDiffer(f"at {time:.3f} s, a decision differs from the whole engine's: {'; '.join(found)}")
        self._chance.bit_generator.state = after
        self.checked += 1
        return decision

    def _evacuation(self, server: int, row: int) -> RequestSpec:
        """Return the request for the evacuation of a server.

        It is that of a new server if this is decided in the same way, because such decisions can be kept.
        """
        cloud = self.cloud
        spec = cloud.kinds[int(cloud.kind_of[server])].spec
        group = cloud.group_of(server)
        if self._all_rebuild and self._sees_failures and group is None and not spec.hints:
            return spec
        own = cloud.hosts.hosts[row]
        return self._in_group(spec.moving(MoveKind.EVACUATE, f"server-{server}", leaving=(own,)), server)

    def _in_group(self, spec: RequestSpec, server: int) -> RequestSpec:
        """Return the request of a move with the server's group as the rules must see it: without the server."""
        group = self.cloud.group_of(server)
        if group is None:
            return spec
        host = self.cloud.hosts.hosts[int(self.cloud.row_of[server])]
        return replace(spec, group=group.with_members(host, -1))

    def _move(self, server: int, number: int, spec: RequestSpec, time: float) -> bool:
        """Move a server to the host that the scheduler chooses, as the kind ``number``; False if there is none."""
        cloud = self.cloud
        needs = cloud.kinds[number].needs
        limit = RANKED_KEPT if needs else 1
        decision = self.kept.decide(cloud.live, cloud.now(time), spec, limit=limit, rng=self._rng)
        best, share = first_that_gives(decision, cloud.hosts, needs)
        if best is None:
            return False
        cloud.take_off(server)
        cloud.place(server, number, best.row, share)
        return True
