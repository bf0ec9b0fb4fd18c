# SPDX-License-Identifier: Apache-2.0
"""Stranded resources: free resources of hosts that none of the given requests can use, by their cause.

The free amount of a resource class on a host is stranded if no request that takes this class fits on the host now. Its
cause is the rule that rejects the host for most of the requests that take the class. The resources of the hosts' own
providers count, those of nested and sharing providers do not.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from kilonova.model.request_spec import RequestSpec
from kilonova.planning.capacity import as_asked
from kilonova.planning.hindrance import DEVICES
from kilonova.planning.root_queries import root_queries
from kilonova.records import dataclass
from kilonova.scheduler.decision import SURVIVED
from kilonova.scheduler.devices.choice import needs_of
from kilonova.scheduler.devices.pci_request import Alias
from kilonova.scheduler.engine.engine import Engine
from kilonova.scheduler.engine.funnel import filtered
from kilonova.scheduler.host_table import BoolArray, HostTable, IntArray

UNREQUESTED = "flavors"
"""Rule of resources that no request takes."""


@dataclass(frozen=True, slots=True)
class Cause:
    """A rule, the stranded amount that it causes, and the number of hosts with such an amount."""

    rule: str
    amount: int
    hosts: int


@dataclass(frozen=True, slots=True)
class StrandedResource:
    """The totals of a resource class on all hosts. ``causes``: the largest amount first."""

    resource_class: str
    capacity: int
    free: int
    stranded: int
    causes: tuple[Cause, ...]

    @property
    def share(self) -> float:
        """The stranded part of the capacity, from 0 to 1."""
        return self.stranded / self.capacity if self.capacity else 0.0


def stranded(
    hosts: HostTable,
    requests: Sequence[RequestSpec],
    engine: Engine,
    *,
    aliases: Mapping[str, Alias] | None = None,
    check: Callable[[], None] = lambda: None,
) -> tuple[StrandedResource, ...]:
    """Return the stranded amount of each resource class that a host has, in the order of the table's columns.

    ``aliases``: the configured PCI aliases. ``check``: called regularly; stops the computation by an exception.
    Raises: InvalidRequest, for contradictory NUMA or PCI options; RuleFailed.
    """
    verdicts = []
    for spec in requests:
        check()
        verdicts.append(_Verdict.of(hosts, spec, engine, aliases or {}))
    found = []
    for column, name in enumerate(hosts.resource_classes):
        capacity = hosts.capacity[:, column]
        if capacity.any():
            free = np.maximum(capacity - hosts.used[:, column], 0)
            causes = _causes(name, free, [each for each in verdicts if name in each.takes])
            amount = sum(each.amount for each in causes)
            found.append(StrandedResource(name, int(capacity.sum()), int(free.sum()), amount, causes))
    return tuple(found)


@dataclass(frozen=True, slots=True)
class _Verdict:
    """What the rules say about one request.

    ``takes``: resource class → the hosts on which a server fits and takes the class. ``lost``: rule → the hosts that it
    rejects first. Shapes: all arrays (H,).
    """

    takes: Mapping[str, BoolArray]
    lost: Mapping[str, BoolArray]

    @classmethod
    def of(cls, hosts: HostTable, spec: RequestSpec, engine: Engine, aliases: Mapping[str, Alias]) -> "_Verdict":
        asked = as_asked(spec, engine)
        decision = engine.decide(hosts, asked, limit=1)
        lost: dict[str, BoolArray] = {}
        for number, step in enumerate(decision.steps):
            if step.removed:
                rows = decision.removed_by == number
                lost[step.rule] = lost[step.rule] | rows if step.rule in lost else rows
        passes = decision.removed_by == SURVIVED
        without_devices = _without_devices(hosts, asked, aliases, passes)
        if without_devices.any():
            passes, lost[DEVICES] = passes & ~without_devices, without_devices
        return cls(_takes(hosts, asked, engine, passes), lost)


def _takes(hosts: HostTable, asked: RequestSpec, engine: Engine, passes: BoolArray) -> dict[str, BoolArray]:
    """Return resource class → the hosts of ``passes`` on which a server takes the class."""
    query = asked.query
    queries = (
        None if query.fallback is None else root_queries(hosts, filtered(hosts, asked, engine.request_filters).query)
    )
    if queries is None:
        names = {*query.totals, *(query.fallback.totals if query.fallback is not None else ())}
        return dict.fromkeys(names, passes)
    found: dict[str, BoolArray] = {}
    left = passes
    for each in queries:
        served = left & each.has_room(hosts)
        left = left & ~served
        for column in each.amounts:
            name = hosts.resource_classes[column]
            found[name] = found[name] | served if name in found else served
    return found


def _without_devices(
    hosts: HostTable, asked: RequestSpec, aliases: Mapping[str, Alias], passes: BoolArray
) -> BoolArray:
    """Return those of ``passes`` on which the NUMA cells or PCI devices of a server do not fit."""
    needs = needs_of(asked, aliases)
    found = np.zeros(len(hosts), dtype=np.bool_)
    if not needs:
        return found
    columns = [column for name in ("VCPU", "MEMORY_MB") if (column := hosts.column(name)) is not None]
    known: dict[tuple[int, tuple[float, ...]], bool] = {}
    for row in np.flatnonzero(passes).tolist():
        key = int(hosts.devices[row]), tuple(hosts.allocation_ratio[row, columns].tolist())
        if key not in known:
            known[key] = needs.on(hosts, row) is None
        found[row] = known[key]
    return found


def _causes(name: str, free: IntArray, verdicts: Sequence[_Verdict]) -> tuple[Cause, ...]:
    """Return the causes why the free amounts of a class are stranded. Shapes: ``free`` (H,)."""
    rows = free > 0
    for each in verdicts:
        rows = rows & ~each.takes[name]
    votes: dict[str, IntArray] = defaultdict(lambda: np.zeros(len(free), dtype=np.int64))
    for each in verdicts:
        for rule, lost in each.lost.items():
            votes[rule] += lost
    rules = [*votes, UNREQUESTED]
    chosen = np.full(len(free), len(votes))
    if votes:
        counts = np.array(list(votes.values()))
        chosen = np.where(counts.any(axis=0), counts.argmax(axis=0), chosen)
    causes = []
    for number, rule in enumerate(rules):
        mine = rows & (chosen == number)
        if mine.any():
            causes.append(Cause(rule, int(free[mine].sum()), int(mine.sum())))
    return tuple(sorted(causes, key=lambda cause: (-cause.amount, cause.rule)))
