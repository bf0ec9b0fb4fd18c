# SPDX-License-Identifier: Apache-2.0
"""Events of hosts in a forecast: failures and repairs, and new hosts as copies of existing ones."""

import math
from dataclasses import field

import numpy as np

from kilonova.planning.forecast.draws import durations
from kilonova.planning.forecast.durations import seconds
from kilonova.planning.forecast.scenario import MOST_HOSTS, Failures, Scenario, ScenarioError
from kilonova.records import dataclass, replace
from kilonova.scheduler.host_table import FloatArray, HostTable, IntArray

MOST_FAILURES = 10_000_000


def _no_times() -> FloatArray:
    return np.zeros(0)


def _no_rows() -> IntArray:
    return np.zeros(0, dtype=np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class HostEvents:
    """Failures, repairs and growth. Times in seconds.

    ``failing``: rows of the hosts that fail at ``failed_at`` and are back at ``repaired_at``; shapes (F,).
    ``evacuates``: whether the servers of failed hosts are evacuated.
    ``grown_at``: times of growth, in ascending order; shapes (G,). ``sizes``: number of hosts after each of them.
    """

    failing: IntArray = field(default_factory=_no_rows)
    failed_at: FloatArray = field(default_factory=_no_times)
    repaired_at: FloatArray = field(default_factory=_no_times)
    evacuates: bool = False
    grown_at: FloatArray = field(default_factory=_no_times)
    sizes: tuple[int, ...] = ()


def all_hosts(scenario: Scenario, hosts: HostTable) -> tuple[HostTable, HostEvents]:
    """Return the table of all hosts that exist at any time, and its growth. The first rows are those of ``hosts``.

    Raises: ScenarioError.
    """
    batches = sorted(_batches(scenario, hosts), key=lambda each: each[0])
    if not batches:
        return hosts, HostEvents()
    rows = [row for _, row, count in batches for row in [row] * count]
    if len(hosts) + len(rows) > MOST_HOSTS:
        raise ScenarioError("growth", f"there may be at most {MOST_HOSTS} hosts")
    if hosts.providers is not None:
        raise ScenarioError("growth", "hosts with nested or sharing resource providers cannot be copied")
    names = [f"{hosts.hosts[row]}-copy{number}" for number, row in enumerate(rows, start=1)]
    if taken := {*hosts.hosts, *hosts.nodes}.intersection(names):
        raise ScenarioError("growth", f"a host has the name {min(taken)!r} already")
    grown = hosts.take(np.concatenate([np.arange(len(hosts)), np.array(rows, dtype=np.int64)]))
    grown.used[len(hosts) :] = 0
    grown.num_instances[len(hosts) :] = grown.num_io_ops[len(hosts) :] = grown.failed_builds[len(hosts) :] = 0
    states = grown.device_states
    for row in range(len(hosts), len(grown)):
        grown.devices[row] = states.number(grown.devices_of(row).used_by(()))
    added = tuple(names)
    table = replace(
        grown,
        hosts=hosts.hosts + added,
        nodes=hosts.nodes + added,
        uuids=hosts.uuids + added,
        instance_rows=hosts.instance_rows,
    )
    sizes = np.cumsum([len(hosts), *(count for _, _, count in batches)]).tolist()[1:]
    return table, HostEvents(grown_at=np.array([at for at, _, _ in batches]), sizes=tuple(sizes))


def _batches(scenario: Scenario, hosts: HostTable) -> list[tuple[float, int, int]]:
    """Return (time, row of the copied host, number of copies) of each growth before the end. Raises: ScenarioError."""
    found = []
    for number, each in enumerate(scenario.growth):
        row = next(iter(hosts.rows_of_host().get(each.like, ())), None)
        if row is None:
            raise ScenarioError(f"growth[{number}].like", f"unknown host {each.like!r}")
        if each.at is not None:
            times = [seconds(each.at)]
        else:
            assert each.every is not None
            step = seconds(each.every)
            times = [step * turn for turn in range(1, math.ceil(scenario.length_s / step) + 1)]
        found += [(at, row, each.hosts) for at in times if at < scenario.length_s]
    return found


def with_failures(
    events: HostEvents, failures: Failures, hosts: int, length_s: float, rng: np.random.Generator
) -> HostEvents:
    """Draw failures. ``hosts``: their number at the beginning. Raises: ScenarioError, if there are too many."""
    most = events.sizes[-1] if events.sizes else hosts
    expected = most * length_s / seconds(failures.mtbf)
    if expected > MOST_FAILURES:
        raise ScenarioError("failures.mtbf", f"there may be at most {MOST_FAILURES} failures")
    count = int(rng.poisson(expected))
    at = np.sort(rng.random(count)) * length_s
    rows = rng.integers(max(1, most), size=count)
    repairs = durations(failures.repair, count, rng)
    sizes = np.array([hosts, *events.sizes])[np.searchsorted(events.grown_at, at, side="right")]
    is_down_until: dict[int, float] = {}
    kept = []
    for number, (time, row, size) in enumerate(zip(at.tolist(), rows.tolist(), sizes.tolist(), strict=True)):
        if row < size and is_down_until.get(row, -1.0) < time:
            is_down_until[row] = time + float(repairs[number])
            kept.append(number)
    chosen = np.array(kept, dtype=np.int64)
    return replace(
        events,
        failing=rows[chosen],
        failed_at=at[chosen],
        repaired_at=(at + repairs)[chosen],
        evacuates=failures.evacuate,
    )
