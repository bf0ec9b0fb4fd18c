# SPDX-License-Identifier: Apache-2.0
"""The workload of a forecast: all events of its virtual time in their order, drawn before the first decision.

So all policies see the same servers, and the same seed gives the same events. Axes: N servers, E events.
"""

from collections.abc import Sequence
from dataclasses import field
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from kilonova.model.server_group import POLICIES, GroupView
from kilonova.planning.forecast.draws import arrival_times, choices, durations
from kilonova.planning.forecast.host_events import HostEvents
from kilonova.planning.forecast.scenario import MOST_ARRIVALS, Arrivals, Distribution, Scenario, ScenarioError
from kilonova.planning.forecast.server_kinds import KindName, Kinds, ServerKind
from kilonova.records import dataclass
from kilonova.scheduler.host_table import FloatArray, IntArray

Numbers = NDArray[np.int32]
NONE = -1


class Event(IntEnum):
    """What happens; of the events of one moment, the smaller ones happen first."""

    LEAVE = 0
    GROW = 1
    REPAIR = 2
    FAIL = 3
    RESIZE = 4
    ARRIVE = 5


@dataclass(frozen=True, slots=True, eq=False)
class Servers:
    """Servers by column. Times in seconds, infinite for never; ``-1`` for none. Shapes: (N,) each.

    ``kind``, ``resized_to``: numbers of kinds. ``group``: number of the server group.
    """

    arrival: FloatArray
    departure: FloatArray
    kind: Numbers
    resized_at: FloatArray
    resized_to: Numbers
    group: Numbers

    @classmethod
    def of(cls, arrival: FloatArray, lifetime: FloatArray, kind: IntArray) -> "Servers":
        """Return servers that are in no group and are never resized."""
        count = len(arrival)
        none = np.full(count, NONE, dtype=np.int32)
        return cls(arrival, arrival + lifetime, kind.astype(np.int32), np.full(count, np.inf), none, none.copy())

    def __len__(self) -> int:
        return len(self.arrival)


@dataclass(frozen=True, slots=True, eq=False)
class Workload:
    """Servers and events. ``time``, ``event``, ``subject``: (E,): the number of the server, of the host, or of hosts.

    ``groups``: the empty server group of each group number.
    """

    kinds: tuple[ServerKind, ...]
    servers: Servers
    groups: Sequence[GroupView]
    time: FloatArray
    event: NDArray[np.uint8]
    subject: IntArray
    length_s: float
    present: int = 0
    hosts: HostEvents = field(default_factory=HostEvents)


def stream(kinds: Kinds, arrivals: Arrivals, length_s: float, place: str, rng: np.random.Generator) -> Servers:
    """Draw the servers of a stream, without their groups. ``place``: its path.

    Raises: ScenarioError, InvalidRequest.
    """
    times = arrival_times(arrivals, length_s, place, rng)
    count = len(times)
    parts = [arrivals.flavors, arrivals.images, arrivals.projects, arrivals.zones]
    names = [[*part] or [""] for part in parts]
    drawn = [choices(part, count, rng) for part in parts]
    hints = tuple(arrivals.hints.items())
    numbers, places = np.unique(np.array(drawn).T.reshape(count, len(parts)), axis=0, return_inverse=True)
    known = []
    for row in numbers.tolist():
        flavor, image, project, zone = (each[at] for each, at in zip(names, row, strict=True))
        known.append(kinds.number(KindName(flavor, image, project, zone, hints), place))
    kind = np.array(known, dtype=np.int64)[places.reshape(count)] if count else np.zeros(0, dtype=np.int64)
    made = Servers.of(times, _lifetimes(arrivals.lifetimes, count, rng), kind)
    if arrivals.resizes is not None:
        _draw_resizes(made, kinds, arrivals, place, rng)
    return made


def _lifetimes(distribution: Distribution | None, count: int, rng: np.random.Generator) -> FloatArray:
    return np.full(count, np.inf) if distribution is None else durations(distribution, count, rng)


def _draw_resizes(servers: Servers, kinds: Kinds, arrivals: Arrivals, place: str, rng: np.random.Generator) -> None:
    resizes = arrivals.resizes
    assert resizes is not None
    count = len(servers)
    is_resized = rng.random(count) < resizes.share
    at = servers.arrival + durations(resizes.after, count, rng)
    flavors, drawn = [*resizes.flavors], choices(resizes.flavors, count, rng)
    is_resized &= at < servers.departure
    servers.resized_at[is_resized] = at[is_resized]
    for number in np.flatnonzero(is_resized).tolist():
        name = kinds.all[servers.kind[number]].name._replace(flavor=flavors[drawn[number]])
        servers.resized_to[number] = kinds.number(name, f"{place}.resizes")


def workload(
    scenario: Scenario,
    kinds: Kinds,
    hosts: HostEvents,
    rng: np.random.Generator,
    traces: Sequence[Servers] = (),
    present: Servers | None = None,
    groups: Sequence[GroupView] = (),
) -> Workload:
    """Draw the workload of a scenario.

    ``present``: the servers that exist at the beginning; they have the first numbers, and do not arrive.
    ``traces``: further servers. ``groups``: the groups that present servers and traces number.
    Raises: ScenarioError, InvalidRequest.
    """
    length = scenario.length_s
    parts = [] if present is None else [present]
    known = list(groups)
    generators = rng.spawn(len(scenario.arrivals))
    for number, (arrivals, own) in enumerate(zip(scenario.arrivals, generators, strict=True)):
        place = f"arrivals[{number}]"
        drawn = stream(kinds, arrivals, length, place, own)
        if arrivals.group is not None:
            _group(drawn, arrivals, known, f"{place}.group")
        parts.append(drawn)
    servers = _joined([*parts, *traces])
    if len(servers) > MOST_ARRIVALS:
        raise ScenarioError("arrivals", f"there may be at most {MOST_ARRIVALS} servers")
    first = 0 if present is None else len(present)
    return Workload(tuple(kinds.all), servers, known, *_events(servers, hosts, length, first), length, first, hosts)


def _group(servers: Servers, arrivals: Arrivals, groups: list[GroupView], place: str) -> None:
    asked = arrivals.group
    assert asked is not None
    if asked.policy not in POLICIES:
        raise ScenarioError(f"{place}.policy", f"must be one of {', '.join(POLICIES)}")
    numbers = np.arange(len(servers)) // asked.size
    servers.group[:] = len(groups) + numbers
    most = int(numbers[-1]) + 1 if len(numbers) else 0
    groups += [
        GroupView(f"group-{len(groups) + each}", asked.policy, asked.max_server_per_host) for each in range(most)
    ]


def _joined(parts: Sequence[Servers]) -> Servers:
    """Return all servers; those that arrive are numbered by part, as they are given."""
    if not parts:
        return Servers.of(np.zeros(0), np.zeros(0), np.zeros(0, dtype=np.int64))
    names = ("arrival", "departure", "kind", "resized_at", "resized_to", "group")
    return Servers(*[np.concatenate([getattr(part, name) for part in parts]) for name in names])


def _events(
    servers: Servers, hosts: HostEvents, length_s: float, present: int
) -> tuple[FloatArray, NDArray[np.uint8], IntArray]:
    """Return time, event and subject of all events before the end, in their order."""
    every = np.arange(len(servers))
    listed = (
        (Event.LEAVE, servers.departure, every),
        (Event.GROW, hosts.grown_at, np.arange(len(hosts.grown_at))),
        (Event.REPAIR, hosts.repaired_at, hosts.failing),
        (Event.FAIL, hosts.failed_at, hosts.failing),
        (Event.RESIZE, servers.resized_at, every),
        (Event.ARRIVE, servers.arrival[present:], every[present:]),
    )
    times, events, subjects = [], [], []
    for event, at, subject in listed:
        is_in_time = at < length_s
        times.append(at[is_in_time])
        subjects.append(subject[is_in_time])
        events.append(np.full(len(times[-1]), event, dtype=np.uint8))
    time, kind, subject = np.concatenate(times), np.concatenate(events), np.concatenate(subjects)
    order = np.lexsort((subject, kind, time))
    return time[order], kind[order], subject[order]
