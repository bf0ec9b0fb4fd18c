# SPDX-License-Identifier: Apache-2.0
"""A cloud to plan with: the host table of one moment, its servers, and changes that cost only what they change.

::

    with cloud.branch():            changes are undone at the end, at the cost of the changes
        decision = cloud.decide(server, MoveKind.LIVE_MIGRATE)      the scheduler's own decision
        cloud.move(server, decision.ranked[0].row)

A move holds resources on both hosts from :meth:`Cloud.begin_move` to :meth:`Cloud.end_move`, as claims of moves do.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial

from kilonova.model.host_devices import DeviceShare
from kilonova.model.request_spec import RequestSpec
from kilonova.model.server_group import GroupView
from kilonova.model.server_migration import MoveKind
from kilonova.planning.planned_server import PlannedServer
from kilonova.records import dataclass, replace
from kilonova.scheduler.decision import Decision
from kilonova.scheduler.devices.choice import RANKED_KEPT
from kilonova.scheduler.engine.engine import Engine
from kilonova.scheduler.engine.group_policies import group_for
from kilonova.scheduler.engine.provider_trees import Allocations
from kilonova.scheduler.guests import ChangedGuests, GuestKind
from kilonova.scheduler.host_table import HostTable
from kilonova.scheduler.live_hosts import LiveHosts
from kilonova.scheduler.row_changes import RowChanges

_MOST_KNOWN_ALLOCATIONS = 4096


class DoesNotFitError(Exception):
    """The NUMA cells or PCI devices of a server do not fit on a host."""


@dataclass(frozen=True, slots=True)
class Held:
    """Resources of one host that a server holds: allocations and devices. ``row``: the row of the host."""

    row: int
    allocations: Allocations
    share: DeviceShare | None = None


@dataclass(frozen=True, slots=True)
class BegunMove:
    """A move that has begun: the server holds resources on both hosts. ``kind``: None for an instantaneous move."""

    server: PlannedServer
    source: Held
    destination: Held
    kind: MoveKind | None = None


class Cloud:
    """A host table with columns of its own, the servers on its hosts, and the server groups; changed in place.

    ``hosts``: the table, with device states that no other thread changes; only this class may change it.
    ``groups``: group uuid → the group, members counted by host.
    ``live``: the same table for kept decisions, which see every changed row.
    """

    def __init__(
        self,
        hosts: HostTable,
        engine: Engine,
        servers: Iterable[PlannedServer] = (),
        groups: Mapping[str, GroupView] | None = None,
    ) -> None:
        own = hosts.with_own_use()
        self._guests = ChangedGuests(hosts.guests)
        self._rows_of_instances = _InstanceRows(hosts.instance_rows)
        self.hosts = replace(own, guests=self._guests, instance_rows=self._rows_of_instances)
        self.engine = engine
        self.changes = RowChanges(len(hosts))
        self.live = LiveHosts(self.hosts, self.changes, lambda _now: hosts.last_seen)
        self.groups = dict(groups or {})
        self.servers = {server.uuid: server for server in servers}
        self._on_row: dict[int, dict[str, None]] = {}
        for server in self.servers.values():
            self._on_row.setdefault(server.row, {})[server.uuid] = None
        #: Server → what it holds, for servers that were moved; None if the server is on no host.
        self._held: dict[str, Held | None] = {}
        self._undo: list[Callable[[], object]] | None = None
        self._known_allocations: dict[tuple[int, int], tuple[RequestSpec, Allocations]] = {}

    # --- reading ------------------------------------------------------------------------------------------------------

    def held(self, server: PlannedServer) -> Held | None:
        """Return what a server holds on its present host, or None if it is on no host."""
        try:
            return self._held[server.uuid]
        except KeyError:
            return Held(server.row, server.allocations, server.share)

    def row_of(self, server: PlannedServer) -> int | None:
        """Return the row of a server's present host, or None if it is on no host."""
        held = self.held(server)
        return None if held is None else held.row

    def servers_on(self, row: int) -> tuple[PlannedServer, ...]:
        """Return the known servers of a host, in order of their uuids."""
        return tuple(self.servers[uuid] for uuid in sorted(self._on_row.get(row, ())))

    def request(
        self,
        server: PlannedServer,
        kind: MoveKind | None,
        *,
        leaving: Collection[str] = (),
        to: str | None = None,
    ) -> RequestSpec:
        """Return the request with which the scheduler would decide a move of a server now.

        ``leaving``: service hosts to exclude, besides the server's own. ``to``: the requested service host.
        ``kind``: None for the request of a new server with the same properties.
        """
        row = self.row_of(server)
        own = frozenset() if row is None else frozenset({self.hosts.hosts[row]})
        if kind is None:
            spec = replace(server.spec.of_new_server(), requested_host=to, ignore_hosts=frozenset(leaving))
        else:
            spec = server.spec.moving(kind, server.uuid, leaving={*leaving, *server.avoided, *own}, host=to)
        if server.group_uuid is None:
            return spec
        return replace(spec, group=group_for(spec, self.groups.get(server.group_uuid), self.hosts))

    def decide(
        self,
        server: PlannedServer,
        kind: MoveKind | None,
        *,
        leaving: Collection[str] = (),
        to: str | None = None,
        limit: int = RANKED_KEPT,
    ) -> Decision:
        """Return the scheduler's decision on a move of a server now; arguments as :meth:`request`. Raises: RuleFailed.

        The choice among hosts is deterministic: options that make it random are ignored.
        """
        return self.engine.decide(self.hosts, self.request(server, kind, leaving=leaving, to=to), limit=limit)

    def destination(self, server: PlannedServer, row: int) -> Held:
        """Return what a server would hold on the host at ``row``. The host must have room for it.

        Raises: DoesNotFitError.
        """
        share = server.needs.on(self.hosts, row) if server.needs else None
        if server.needs and share is None:
            raise DoesNotFitError
        return Held(row, self._allocations(server.spec, row), share)

    def _allocations(self, spec: RequestSpec, row: int) -> Allocations:
        """Return the allocations on a host; those of plain requests are kept, because they do not depend on usage."""
        if self.hosts.providers is not None:
            return self.engine.allocations(self.hosts, spec, row)
        key = id(spec), row
        known = self._known_allocations.get(key)
        if known is None or known[0] is not spec:
            if len(self._known_allocations) >= _MOST_KNOWN_ALLOCATIONS:
                self._known_allocations.clear()
            known = self._known_allocations[key] = spec, self.engine.allocations(self.hosts, spec, row)
        return known[1]

    # --- changes ------------------------------------------------------------------------------------------------------

    @contextmanager
    def branch(self) -> Iterator["Cloud"]:
        """Return a context manager that undoes all changes made inside it, at the cost of these changes.

        Branches may be nested. After an exception, the changes are undone as well.
        """
        outer = self._undo
        mine: list[Callable[[], object]] = []
        self._undo = mine
        try:
            yield self
        finally:
            self._undo = None  # undoing is not logged
            for undo in reversed(mine):
                undo()
            self._undo = outer

    def begin_move(self, server: PlannedServer, destination: Held, kind: MoveKind | None = None) -> BegunMove:
        """Take the resources of a move at its destination; the server stays recorded on its source.

        The operation counts as an I/O operation on the destination and, if the guest is shut down, on the source.
        """
        source = self.held(server)
        assert source is not None, "the server is on no host"
        self._count(destination, server.guest, 1)
        self._count_io(destination.row, 1)
        if kind is MoveKind.COLD_MIGRATE:
            self._count_io(source.row, 1)
        self._join(server, source.row, destination.row)
        return BegunMove(server, source, destination, kind)

    def end_move(self, move: BegunMove) -> None:
        """Free the source of a move and record the server on the destination."""
        server, source, destination = move.server, move.source, move.destination
        self._count_io(destination.row, -1)
        if move.kind is MoveKind.COLD_MIGRATE:
            self._count_io(source.row, -1)
        self._count(source, server.guest, -1)
        self._leave(server, source.row, destination.row)
        self._record(server, destination)

    def move(self, server: PlannedServer, row: int) -> BegunMove:
        """Move a server to the host at ``row`` at once. Raises: DoesNotFitError."""
        begun = self.begin_move(server, self.destination(server, row))
        self.end_move(begun)
        return begun

    def take_off(self, server: PlannedServer) -> Held:
        """Remove a server from its host, and from its group; return what it held."""
        held = self.held(server)
        assert held is not None, "the server is on no host"
        self._count(held, server.guest, -1)
        self._leave(server, held.row, None)
        self._record(server, None)
        return held

    def place(self, server: PlannedServer, row: int) -> Held:
        """Place a server that is on no host, or a new one, on the host at ``row``. Raises: DoesNotFitError."""
        destination = self.destination(server, row)
        if server.uuid not in self.servers:
            self.servers[server.uuid], self._held[server.uuid] = server, None
            self._note(partial(self._forget, server.uuid))
        self._count(destination, server.guest, 1)
        self._join(server, None, row)
        self._record(server, destination)
        return destination

    # --- parts of changes ---------------------------------------------------------------------------------------------

    def _note(self, undo: Callable[[], object]) -> None:
        if self._undo is not None:
            self._undo.append(undo)

    def _count(self, held: Held, guest: GuestKind, sign: int) -> None:
        hosts, row = self.hosts, held.row
        for name, amount in held.allocations.get(hosts.uuids[row], {}).items():
            column = hosts.column(name)
            if column is not None:
                hosts.used[row, column] += sign * amount
        if hosts.providers is not None:
            for uuid, amounts in held.allocations.items():
                hosts.providers.count(uuid, {name: sign * amount for name, amount in amounts.items()})
        hosts.num_instances[row] += sign
        self._guests.change(row, guest, sign)
        if held.share:
            before = hosts.devices_of(row)
            after = before.taking(held.share) if sign > 0 else before.without(held.share)
            self._set_devices(row, hosts.device_states.number(after))
        self.changes.mark(row)
        self._note(partial(self._count, replace(held, share=None) if held.share else held, guest, -sign))

    def _set_devices(self, row: int, number: int) -> None:
        before = int(self.hosts.devices[row])
        self.hosts.devices[row] = number
        self.changes.mark(row)
        self._note(partial(self._set_devices, row, before))

    def _count_io(self, row: int, count: int) -> None:
        self.hosts.num_io_ops[row] += count
        self.changes.mark(row)
        self._note(partial(self._count_io, row, -count))

    def _join(self, server: PlannedServer, source: int | None, row: int) -> None:
        group = self._group(server)
        host = self.hosts.hosts[row]
        if group is None or (source is not None and self.hosts.hosts[source] == host):
            return
        if group.policy == "affinity":  # members count on the host of the group only
            members = group.hosts.get(host, 0) + 1
            self._set_group(replace(group, hosts={host: members}))
        else:
            self._set_group(group.with_members(host))

    def _leave(self, server: PlannedServer, row: int, to: int | None) -> None:
        group = self._group(server)
        host = self.hosts.hosts[row]
        if group is None or (to is not None and self.hosts.hosts[to] == host) or not group.hosts.get(host):
            return
        self._set_group(group.with_members(host, -1))

    def _group(self, server: PlannedServer) -> GroupView | None:
        return None if server.group_uuid is None else self.groups.get(server.group_uuid)

    def _set_group(self, group: GroupView) -> None:
        self._note(partial(self.groups.__setitem__, group.uuid, self.groups[group.uuid]))
        self.groups[group.uuid] = group

    def _record(self, server: PlannedServer, held: Held | None) -> None:
        """Record what a server holds now, and on which host."""
        uuid = server.uuid
        before = self.held(server)
        if before is not None:
            self._on_row[before.row].pop(uuid)
        if held is not None:
            self._on_row.setdefault(held.row, {})[uuid] = None
        self._held[uuid] = held
        self._rows_of_instances.set(uuid, None if held is None else held.row)
        self._note(partial(self._record, server, before))

    def _forget(self, uuid: str) -> None:
        """Undo the first placing of a new server."""
        del self.servers[uuid], self._held[uuid]
        self._rows_of_instances.forget(uuid)


class _InstanceRows(Mapping[str, int]):
    """Instance uuid → row of its host, with changes of some rows."""

    def __init__(self, rows: Mapping[str, int]) -> None:
        self._rows = rows
        self._changed: dict[str, int | None] = {}

    def set(self, uuid: str, row: int | None) -> None:
        self._changed[uuid] = row

    def forget(self, uuid: str) -> None:
        self._changed.pop(uuid, None)

    def __getitem__(self, uuid: str) -> int:
        if uuid not in self._changed:
            return self._rows[uuid]
        row = self._changed[uuid]
        if row is None:
            raise KeyError(uuid)
        return row

    def __iter__(self) -> Iterator[str]:
        yield from (uuid for uuid in self._rows if uuid not in self._changed)
        yield from (uuid for uuid, row in self._changed.items() if row is not None)

    def __len__(self) -> int:
        return sum(1 for _ in self)
