# SPDX-License-Identifier: Apache-2.0
"""How many more servers of a request fit, and which rules reject the first one that does not.

By definition this is the number of servers that can be created one after the other until the scheduler refuses one,
each active before the next is created. Quotas are not counted. Servers are placed on a copy of the host table.
"""

from collections.abc import Callable, Mapping
from dataclasses import field

import numpy as np

from kilonova.errors import RuleFailed
from kilonova.model.request_spec import RequestSpec
from kilonova.planning.hindrance import Hindrance, hindrances_of
from kilonova.planning.host_filling import Filling, NotIndependentError
from kilonova.records import dataclass, replace
from kilonova.scheduler.decision import SURVIVED, Decision
from kilonova.scheduler.devices.choice import RANKED_KEPT, DeviceNeeds, first_that_gives, needs_of
from kilonova.scheduler.devices.pci_request import Alias
from kilonova.scheduler.engine.engine import Engine
from kilonova.scheduler.guests import guest_of
from kilonova.scheduler.host_table import HostTable, IntArray
from kilonova.scheduler.resources import with_resources

MOST_ONE_BY_ONE = 100_000
"""Limit of the number of servers that are decided one by one."""


@dataclass(frozen=True, slots=True)
class Capacity:
    """The number of servers that fit; None if nothing limits it, or if it is too large to be counted.

    ``reasons``: why the next server is refused, in the order of the rules; empty if ``fits`` is None.
    ``placed``: number of the servers on each host. ``last``: the decision that refuses the next server. Both are None
    if ``fits`` is None, or if the API refuses the request. Shapes: ``placed`` (H,).
    """

    fits: int | None
    reasons: tuple[Hindrance, ...]
    placed: IntArray | None = field(default=None, compare=False, repr=False)
    last: Decision | None = field(default=None, compare=False, repr=False)


def capacity(
    hosts: HostTable,
    spec: RequestSpec,
    engine: Engine,
    *,
    aliases: Mapping[str, Alias] | None = None,
    check: Callable[[], None] = lambda: None,
    one_by_one: bool = False,
) -> Capacity:
    """Return how many servers of the request fit, one after the other, and what refuses the next one.

    The choice among hosts is deterministic: options that make it random are ignored.

    ``aliases``: the configured PCI aliases. ``check``: called regularly; stops the computation by an exception.
    ``one_by_one``: decide every server in full, even if the hosts do not depend on each other.

    Raises: InvalidRequest, for contradictory NUMA or PCI options; RuleFailed, if a rule raises an exception or returns
    an invalid result.
    """
    asked = as_asked(spec, engine)
    none = np.zeros(len(hosts), dtype=np.int64)
    servers = _Servers(engine, hosts.with_own_use(), asked, needs_of(asked, aliases or {}), none)
    if _goes_where_the_first_goes(asked):
        servers.place_next()
    if not one_by_one:
        filled = _with_hosts_filled(servers, check)
        if filled is None:
            return Capacity(None, ())
        servers = filled
    before = servers.placed
    while servers.place_next():
        check()
        if servers.placed - before > MOST_ONE_BY_ONE:
            return Capacity(None, ())
    last = servers.last
    return Capacity(servers.placed, () if last is None else hindrances_of(last), servers.on_hosts, last)


def as_asked(spec: RequestSpec, engine: Engine) -> RequestSpec:
    """Return the request with the Placement query of its flavor and image, as the engine reads it."""
    asked = with_resources(spec)
    return asked if engine.pcpu_fallback else replace(asked, query=replace(asked.query, fallback=None))


@dataclass(slots=True)
class _Servers:
    """The servers of one request that are placed on ``hosts`` so far. ``last``: the newest decision.

    ``on_hosts``: their number on each host. Shapes: ``on_hosts`` (H,).
    """

    engine: Engine
    hosts: HostTable
    spec: RequestSpec
    needs: DeviceNeeds
    on_hosts: IntArray
    placed: int = 0
    last: Decision | None = None

    def place_next(self) -> bool:
        """Place one more server by a full decision; False if the scheduler refuses it. Raises: RuleFailed."""
        hosts, spec = self.hosts, self.spec
        self.last = self.engine.decide(hosts, spec, limit=RANKED_KEPT)
        best, devices = first_that_gives(self.last, hosts, self.needs)
        if best is None:
            return False
        hosts.count_server(best.row, self.engine.allocations(hosts, spec, best.row), guest_of(spec), devices)
        hosts.num_io_ops[best.row] -= 1  # the server is active when the next one is created
        if spec.group is not None:
            self.spec = replace(spec, group=spec.group.with_members(best.host))
        self.on_hosts[best.row] += 1
        self.placed += 1
        return True


def _goes_where_the_first_goes(spec: RequestSpec) -> bool:
    """Tell whether the host of the first server is the host of all servers, as its server group is still empty."""
    return spec.group is not None and spec.group.policy == "affinity" and not any(spec.group.hosts.values())


def _with_hosts_filled(servers: _Servers, check: Callable[[], None]) -> _Servers | None:
    """Return the servers after all hosts were filled together, or unchanged if the hosts depend on each other.

    None if nothing limits the number of servers.
    """
    engine, hosts, spec = servers.engine, servers.hosts.with_own_use(), servers.spec
    first = engine.decide(hosts, spec, limit=1)
    if not first.survivors:
        return servers
    try:
        filling = Filling.of(engine, hosts, spec, servers.needs)
        placed = filling.fill(hosts, first.removed_by == SURVIVED, check)
    except (NotIndependentError, RuleFailed):
        return servers
    if placed is None:
        return None
    after = filling.spec_after(hosts, placed)
    return _Servers(engine, hosts, after, servers.needs, servers.on_hosts + placed, servers.placed + int(placed.sum()))
