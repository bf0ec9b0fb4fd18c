# SPDX-License-Identifier: Apache-2.0
"""The cloud of a forecast: hosts that take and lose servers, for kept decisions and for the whole engine alike."""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from kilonova.model.host_devices import DeviceShare
from kilonova.model.server_group import GroupView
from kilonova.planning.forecast.changed_guests import CountedGuests
from kilonova.planning.forecast.server_kinds import ServerKind
from kilonova.planning.forecast.workload import NONE, Numbers, Workload
from kilonova.records import dataclass, replace
from kilonova.scheduler.engine.engine import Engine
from kilonova.scheduler.engine.provider_trees import Allocations, is_plain
from kilonova.scheduler.host_table import FloatArray, HostTable
from kilonova.scheduler.live_hosts import LiveHosts
from kilonova.scheduler.row_changes import RowChanges

_UP = np.inf


@dataclass(frozen=True, slots=True)
class Held:
    """What a server holds. ``allocations``: None: the amounts of its kind, of the root provider."""

    allocations: Allocations | None
    share: DeviceShare | None


class VirtualCloud:
    """Hosts and servers of one run, changed in place.

    ``start``: the hosts that exist at the beginning; ``every``: all that exist at any time, with these first.
    ``held``: present server → the row of its host, and what it holds there; the tables include its usage.
    ``row_of``: server → row of its host, or -1. ``began_at``: epoch seconds of the beginning.
    """

    def __init__(
        self,
        start: HostTable,
        every: HostTable,
        engine: Engine,
        workload: Workload,
        held: Mapping[int, tuple[int, Held]] | None = None,
    ) -> None:
        self.engine, self.kinds = engine, workload.kinds
        self._every, self._workload = every, workload
        self.began_at = every.taken_at
        self.row_of = np.full(len(workload.servers), NONE, dtype=np.int32)
        self.kind_of = workload.servers.kind.copy()
        self._held: dict[int, Held] = {}
        #: Row → its servers, if evacuations need them.
        self._on_row: dict[int, dict[int, None]] | None = {} if len(workload.hosts.failing) else None
        self.groups: dict[int, GroupView] = {}
        self._plain = [is_plain(every, kind.spec.query) for kind in self.kinds]
        self._amounts = [_columns(every, kind.spec.query.totals) for kind in self.kinds]
        self._guests = CountedGuests(start.guests, len(every))
        for server, (row, holding) in (held or {}).items():
            self._record(server, row, holding)
        self._begin(start, None)

    def _begin(self, table: HostTable, before: HostTable | None) -> None:
        """Use another table; the usage of its first rows is that of the table before."""
        own = table.with_own_use()
        forced_down = table.forced_down.copy()
        if before is not None:
            size = len(before)
            for name in ("used", "num_instances", "num_io_ops", "devices"):
                getattr(own, name)[:size] = getattr(before, name)
            forced_down[:size] = before.forced_down
        self.hosts = replace(own, guests=self._guests.of(len(own)), forced_down=forced_down)
        self._changes = RowChanges(len(own))
        self._keep_live()

    def _keep_live(self) -> None:
        hosts = self.hosts
        self.live = LiveHosts(hosts, self._changes, lambda now: _seen(hosts, now))

    def now(self, time: float) -> float:
        """Return a virtual time in epoch seconds."""
        return self.began_at + time

    # --- hosts --------------------------------------------------------------------------------------------------------

    def grow(self, size: int) -> None:
        """Add hosts, up to ``size``."""
        self._begin(self._every.take(np.arange(size)), self.hosts)

    def set_down(self, row: int, *, is_down: bool) -> None:
        """Mark a host as failed, or as repaired."""
        forced_down = self.hosts.forced_down.copy()
        forced_down[row] = is_down or bool(self._every.forced_down[row])
        self.hosts = replace(self.hosts, forced_down=forced_down)
        self._keep_live()

    def servers_on(self, row: int) -> tuple[int, ...]:
        """Return the servers of a host."""
        assert self._on_row is not None
        return tuple(self._on_row.get(row, ()))

    # --- servers ------------------------------------------------------------------------------------------------------

    def place(self, server: int, kind: int, row: int, share: DeviceShare | None) -> None:
        """Place a server of a kind, which is on no host."""
        self.kind_of[server] = kind
        allocations = None if self._plain[kind] else self.engine.allocations(self.hosts, self.kinds[kind].spec, row)
        held = Held(allocations, share) if allocations is not None or share else None
        self._count(row, kind, held, 1)
        self._record(server, row, held)
        self._join(server, row, 1)

    def take_off(self, server: int) -> None:
        """Remove a server from its host."""
        row = int(self.row_of[server])
        held = self._held.pop(server, None)
        self._count(row, int(self.kind_of[server]), held, -1)
        self.row_of[server] = NONE
        if self._on_row is not None:
            del self._on_row[row][server]
        self._join(server, row, -1)

    def group_of(self, server: int) -> GroupView | None:
        """Return the group of a server with its present members, or None."""
        number = int(self._workload.servers.group[server])
        return None if number == NONE else self.groups.get(number, self._workload.groups[number])

    def _record(self, server: int, row: int, held: Held | None) -> None:
        self.row_of[server] = row
        if held is not None:
            self._held[server] = held
        if self._on_row is not None:
            self._on_row.setdefault(row, {})[server] = None

    def _join(self, server: int, row: int, sign: int) -> None:
        group = self.group_of(server)
        if group is None:
            return
        number = int(self._workload.servers.group[server])
        joined = group.with_members(self.hosts.hosts[row], sign)
        if joined.hosts or self._workload.groups[number].hosts:
            self.groups[number] = joined
        else:
            self.groups.pop(number, None)

    def _count(self, row: int, kind: int, held: Held | None, sign: int) -> None:
        hosts = self.hosts
        amounts: Iterable[tuple[int, int]] = self._amounts[kind]
        if held is not None and held.allocations is not None:
            amounts = _columns(hosts, held.allocations.get(hosts.uuids[row], {}))
            if hosts.providers is not None:
                for uuid, each in held.allocations.items():
                    hosts.providers.count(uuid, {name: sign * amount for name, amount in each.items()})
        elif hosts.providers is not None:
            totals = self.kinds[kind].spec.query.totals
            hosts.providers.count(hosts.uuids[row], {name: sign * amount for name, amount in totals.items()})
        for column, amount in amounts:
            hosts.used[row, column] += sign * amount
        hosts.num_instances[row] += sign
        self._guests.change(row, self.kinds[kind].guest, sign)
        if held is not None and held.share:
            devices = hosts.devices_of(row)
            after = devices.taking(held.share) if sign > 0 else devices.without(held.share)
            hosts.devices[row] = hosts.device_states.number(after)
        self._changes.mark(row)


def _columns(hosts: HostTable, amounts: Mapping[str, int]) -> tuple[tuple[int, int], ...]:
    """Return (column, amount) of each resource class that a host has."""
    found = [(hosts.column(name), amount) for name, amount in amounts.items()]
    return tuple((column, amount) for column, amount in found if column is not None and amount)


def _seen(hosts: HostTable, now: float) -> FloatArray:
    """Return the last heartbeats at a time: hosts that are up at the beginning stay up. Shapes: → (H,)."""
    return np.where(np.isinf(hosts.last_seen), now, hosts.last_seen)


def always_up(hosts: HostTable, down_time_s: float) -> HostTable:
    """Return a table whose hosts stay up if they are up now. ``down_time_s``: silence after which a host is down."""
    return replace(hosts, last_seen=np.where(hosts.heard_within(down_time_s), _UP, hosts.last_seen))


def largest_first(kinds: Sequence[ServerKind], kind_of: Numbers, servers: Iterable[int]) -> list[int]:
    """Return servers in the order of evacuations: most memory, CPUs and disk first, then by number."""

    def size(server: int) -> tuple[int, int, int, int]:
        flavor = kinds[kind_of[server]].spec.flavor
        return -flavor.memory_mib, -flavor.vcpus, -flavor.root_gib - flavor.ephemeral_gib, server

    return sorted(servers, key=size)
