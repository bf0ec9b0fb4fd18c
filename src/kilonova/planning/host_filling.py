# SPDX-License-Identifier: Apache-2.0
"""Filling of hosts that do not depend on each other: each takes servers until it rejects one, in any order.

If a placed server changes the verdicts on its own host only, the number of servers that fit on a host does not depend
on the order in which the scheduler chooses hosts. So all hosts are filled at the same time. Without rules that must be
asked again for each server, the numbers follow from the free resources alone.
"""

from collections.abc import Callable, Iterable, Sequence

import numpy as np

from kilonova.model.request_spec import RequestSpec
from kilonova.planning.root_queries import UNLIMITED, RootQuery, root_queries
from kilonova.records import dataclass, replace
from kilonova.scheduler.depends_on import DependsOn, dependence_of
from kilonova.scheduler.devices.choice import DeviceNeeds
from kilonova.scheduler.engine.engine import Engine
from kilonova.scheduler.engine.funnel import LaterFilter, filtered
from kilonova.scheduler.filters.different_host import DifferentHostFilter
from kilonova.scheduler.filters.same_host import SameHostFilter
from kilonova.scheduler.filters.server_group_affinity import ServerGroupAffinityFilter
from kilonova.scheduler.filters.server_group_anti_affinity import ServerGroupAntiAffinityFilter
from kilonova.scheduler.guests import guest_of
from kilonova.scheduler.host_table import BoolArray, HostTable, IntArray
from kilonova.scheduler.plug_in_rules import PlugInFilter, PlugInRequestFilter
from kilonova.scheduler.rule import Filter, rule_name

_OWN_PACKAGE = "kilonova.scheduler."
_MOST_STEPS = 10_000
#: Filters that depend on the server group or on named servers, in a known way.
FILTERS_OF_NAMES = (DifferentHostFilter, SameHostFilter, ServerGroupAffinityFilter, ServerGroupAntiAffinityFilter)


class NotIndependentError(Exception):
    """The hosts depend on each other, or the devices of a server do not fit on a host that passed all filters."""


@dataclass(frozen=True, slots=True)
class Filling:
    """How servers of one request fill independent hosts.

    ``filters``: the filters that are asked again after each server. ``most``: limit of further servers on each host.
    Shapes: ``most`` (H,).
    """

    spec: RequestSpec
    needs: DeviceNeeds
    queries: tuple[RootQuery, ...]
    filters: tuple[LaterFilter, ...]
    most: IntArray
    counts_guests: bool

    @classmethod
    def of(cls, engine: Engine, hosts: HostTable, spec: RequestSpec, needs: DeviceNeeds) -> "Filling":
        """Return how the request fills the hosts. Raises: NotIndependentError; RuleFailed."""
        if spec.instance_uuids or spec.move is not None or not _are_known(engine):
            raise NotIndependentError
        complete = filtered(hosts, spec, engine.request_filters).query
        queries = root_queries(hosts, complete)
        if queries is None or complete.totals != spec.query.totals:
            raise NotIndependentError
        filters = () if spec.force_host or spec.force_node else engine.filters
        asked = tuple(_asked_again(filters, hosts, spec))
        foreign = any(_is_foreign(each.filter) for each in asked)
        return cls(spec, needs, queries, asked, _most_members(filters, hosts, spec), counts_guests=foreign)

    def fill(self, hosts: HostTable, alive: BoolArray, check: Callable[[], None]) -> IntArray | None:
        """Place servers on the ``alive`` hosts until each rejects one; return the number of servers on each.

        None if there is no limit, or more than 10,000 servers would fit on a host under rules that judge each server.
        ``hosts``: a table with its own usage columns, which this method changes. ``alive``: the hosts that pass now.
        Shapes: (H,) → (H,). Raises: NotIndependentError; RuleFailed; what ``check`` raises.
        """
        if self.filters or self.needs:
            return self._one_at_a_time(hosts, alive.copy(), check)
        left = np.where(alive, self.most, 0)
        placed = np.zeros_like(left)
        for query in self.queries:
            servers = np.minimum(query.room(hosts), left)
            if (servers == UNLIMITED).any():
                return None
            query.take(hosts, servers)
            placed, left = placed + servers, left - np.where(left == UNLIMITED, 0, servers)
        hosts.num_instances[:] += placed
        return placed

    def _one_at_a_time(self, hosts: HostTable, alive: BoolArray, check: Callable[[], None]) -> IntArray | None:
        placed = np.zeros(len(hosts), dtype=np.int64)
        devices = _Devices(self.needs, hosts)
        guest = guest_of(self.spec)
        for _ in range(_MOST_STEPS):
            if not alive.any():
                return placed
            check()
            self._take(hosts, alive)
            devices.take(alive)
            hosts.num_instances[:] += alive
            placed += alive
            if self.counts_guests:
                for row in np.flatnonzero(alive).tolist():
                    hosts.guests.count(row, guest)
            alive &= placed < self.most
            alive &= np.logical_or.reduce([query.has_room(hosts) for query in self.queries])
            for each in self.filters:
                alive &= each.passes(hosts, self.spec, alive)
        return None

    def _take(self, hosts: HostTable, alive: BoolArray) -> None:
        left = alive
        for query in self.queries:
            served = left & query.has_room(hosts)
            query.take(hosts, served)
            left = left & ~served

    def spec_after(self, hosts: HostTable, placed: IntArray) -> RequestSpec:
        """Return the request of the next server, with the placed servers as members of its group."""
        group = self.spec.group
        if group is None:
            return self.spec
        members = dict(group.hosts)
        for row in np.flatnonzero(placed).tolist():
            host = hosts.hosts[row]
            members[host] = members.get(host, 0) + int(placed[row])
        return replace(self.spec, group=replace(group, hosts=members))


class _Devices:
    """The NUMA cells and PCI devices that servers take. Hosts in equal states are judged once."""

    def __init__(self, needs: DeviceNeeds, hosts: HostTable) -> None:
        self._needs = needs
        self._hosts = hosts
        columns = [hosts.column(name) for name in ("VCPU", "MEMORY_MB")]
        ratios = [np.ones(len(hosts)) if each is None else hosts.allocation_ratio[:, each] for each in columns]
        self._ratios = list(zip(*(each.tolist() for each in ratios), strict=True))
        self._next: dict[tuple[int, tuple[float, ...]], int] = {}

    def take(self, rows: BoolArray) -> None:
        if not self._needs:
            return
        hosts = self._hosts
        for row in np.flatnonzero(rows).tolist():
            key = int(hosts.devices[row]), self._ratios[row]
            number = self._next.get(key)
            if number is None:
                share = self._needs.on(hosts, row)
                if share is None:
                    raise NotIndependentError
                number = self._next[key] = hosts.device_states.number(hosts.devices_of(row).taking(share))
            hosts.devices[row] = number


def _is_foreign(rule: Filter) -> bool:
    return isinstance(rule, PlugInFilter) or not type(rule).__module__.startswith(_OWN_PACKAGE)


def _are_known(engine: Engine) -> bool:
    """Tell whether all rules declare what they depend on, and no request filter depends on the server group."""
    plug_ins = [dependence_of(each) for each in engine.request_filters if isinstance(each, PlugInRequestFilter)]
    if any(each is None or DependsOn.NAMES in each for each in plug_ins):
        return False
    return all(dependence_of(rule) is not None for rule in (*engine.filters, *engine.weighers))


def _asked_again(filters: Sequence[Filter], hosts: HostTable, spec: RequestSpec) -> Iterable[LaterFilter]:
    """Yield the filters whose verdict on a host can change when the host takes a server of the request."""
    for each in filters:
        depends_on = dependence_of(each) or DependsOn.SHARED
        if DependsOn.NAMES in depends_on and type(each) not in FILTERS_OF_NAMES:
            raise NotIndependentError
        if DependsOn.ROWS not in depends_on:
            continue
        later = LaterFilter(rule_name(each), each.reason, True, each)
        if not _is_foreign(each) and later.passes(hosts, spec, hosts.all_hosts) is hosts.all_hosts:
            continue  # the filter does not apply to the request
        yield later


def _most_members(filters: Sequence[Filter], hosts: HostTable, spec: RequestSpec) -> IntArray:
    """Return how many more servers the server group allows on each host. Shapes: → (H,).

    Raises: NotIndependentError.
    """
    most = np.full(len(hosts), UNLIMITED)
    group = spec.group
    if group is None:
        return most
    names = {type(each) for each in filters}
    if group.policy == "affinity" and ServerGroupAffinityFilter in names and not any(group.hosts.values()):
        raise NotIndependentError
    if group.policy == "anti-affinity" and ServerGroupAntiAffinityFilter in names:
        if len(hosts.rows_of_host()) != len(hosts):
            raise NotIndependentError
        members = np.array([group.hosts.get(host, 0) for host in hosts.hosts], dtype=np.int64)
        most = np.maximum(group.max_server_per_host - members, 0)
    return most
