# SPDX-License-Identifier: Apache-2.0
"""Clouds to plan with, of one change-log number: hosts and groups of a mirror, servers of the database.

The mirror and the read transaction must be of the same commit. If other commits keep coming between them, the hosts are
loaded in the read transaction, too.
"""

from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from sqlalchemy.engine import Connection

from kilonova.claims.present_cloud import PresentCloud
from kilonova.db import mirror_source, placed_servers
from kilonova.db.placed_servers import PlacedRow
from kilonova.deadline import heeding
from kilonova.errors import InvalidRequest
from kilonova.mirror.mirror import Mirror, MirrorCopy
from kilonova.model.flavor import Flavor
from kilonova.model.instance import TaskState, VmState
from kilonova.model.request_spec import RequestSpec
from kilonova.model.server_migration import MoveKind
from kilonova.planning.cloud import Cloud
from kilonova.planning.planned_server import KINDS, NO_DEVICES, PlannedServer, hindrances
from kilonova.records import dataclass, replace
from kilonova.scheduler.devices.choice import DeviceNeeds, needs_of
from kilonova.scheduler.devices.pci_request import Alias
from kilonova.scheduler.engine.engine import Engine
from kilonova.scheduler.filters.compute import ComputeFilter
from kilonova.scheduler.guests import GuestKind, guest_kind
from kilonova.scheduler.host_table import HostTable
from kilonova.scheduler.resources import with_resources

_TRIES = 20
_MIB_PER_GIB = 1024


class Readable(Protocol):
    """The database, or a request's access to it."""

    def read(self) -> AbstractContextManager[Connection]:
        """Open a read transaction, which sees one snapshot."""


@dataclass(frozen=True, slots=True)
class CloudSnapshot:
    """A cloud to plan with, after commit ``seq``."""

    cloud: Cloud
    seq: int


def cloud_snapshot(
    database: Readable,
    mirror: Mirror,
    engine: Engine,
    *,
    on_hosts: Collection[str] | None = None,
    aliases: Mapping[str, Alias] | None = None,
) -> CloudSnapshot:
    """Return the present cloud. The caller must not hold the mirror's lock.

    ``on_hosts``: load only the servers of these service hosts, and all members of their server groups; None: load all
    servers. ``aliases``: the configured PCI aliases.
    Raises: Unavailable, DeadlineExceeded, ClientGone.
    """
    for _ in range(_TRIES):
        with database.read() as connection:
            seq = mirror_source.seq_in(connection)
            mirror.catch_up()
            copy = mirror.copy()
            if copy.seq == seq:
                return _snapshot(connection, copy, engine, on_hosts, aliases or {})
    with database.read() as connection:
        past = _past(connection, mirror.clock())
        mirror.catch_up()
        for assumption in mirror.assumed():
            past.assume(assumption)
        return _snapshot(connection, past.copy(), engine, on_hosts, aliases or {})


def loaded_cloud(present: PresentCloud) -> CloudSnapshot:
    """Return the present cloud with all servers, read from the database alone; claims in progress are not counted.

    For processes without a mirror. Raises: Unavailable.
    """
    database = present.database
    now = database.clock.seconds()
    with database.read(patient=True) as connection:
        return _snapshot(connection, _past(connection, now).copy(), present.engine, None, present.aliases)


def _past(connection: Connection, now: float) -> Mirror:
    loaded = mirror_source.loaded_in(connection)
    return Mirror.of(loaded.changes, loaded.seq, now=now)


def _snapshot(
    connection: Connection,
    copy: MirrorCopy,
    engine: Engine,
    on_hosts: Collection[str] | None,
    aliases: Mapping[str, Alias],
) -> CloudSnapshot:
    rows = placed_servers.on_hosts(connection, on_hosts)
    if on_hosts is not None:
        groups = {row.group_uuid for row in rows if row.group_uuid is not None}
        known = {row.uuid for row in rows}
        rows += [row for row in placed_servers.members_of(connection, groups) if row.uuid not in known]
    servers = planned_servers(connection, copy.hosts, engine, rows, aliases, everything=on_hosts is None)
    return CloudSnapshot(Cloud(copy.hosts, engine, servers, copy.groups), copy.seq)


def planned_servers(
    connection: Connection,
    hosts: HostTable,
    engine: Engine,
    rows: Sequence[PlacedRow],
    aliases: Mapping[str, Alias],
    *,
    everything: bool = False,
) -> list[PlannedServer]:
    """Return the servers of ``rows`` that are on a host of the table. ``everything``: ``rows`` are all servers."""
    held = placed_servers.held_by(connection, None if everything else [row.uuid for row in rows])
    stored = placed_servers.requests(connection, {row.request_spec_uuid for row in rows if row.request_spec_uuid})
    avoided = placed_servers.evacuated_from(connection)
    requests = _Requests(stored, aliases)
    places = {(host, node): row for row, (host, node) in enumerate(zip(hosts.hosts, hosts.nodes, strict=True))}
    movable = _Movable(hosts, engine)
    found = []
    for row in heeding(rows):
        at = places.get((row.host, row.node))
        if at is None:
            continue
        request = requests.of(row)
        found.append(
            PlannedServer(
                uuid=row.uuid,
                name=row.name,
                row=at,
                spec=request.spec,
                needs=request.needs,
                allocations=held.allocations.get(row.uuid, {}),
                share=held.shares.get(row.uuid),
                guest=request.guest,
                group_uuid=row.group_uuid,
                disk_gib=request.disk_gib,
                memory_gib=request.memory_gib,
                avoided=avoided.get(row.uuid, frozenset()),
                hindrances=request.hindrances or movable.hindrances(row, at),
                locked=row.locked,
            )
        )
    return found


@dataclass(frozen=True, slots=True)
class _Request:
    """What servers of equal requests, flavors and image properties have in common."""

    spec: RequestSpec
    needs: DeviceNeeds
    guest: GuestKind
    disk_gib: float
    memory_gib: float
    hindrances: Mapping[MoveKind, str]


class _Requests:
    """The requests of servers; each distinct one is made once."""

    def __init__(self, stored: Mapping[str, tuple[RequestSpec, str | None]], aliases: Mapping[str, Alias]) -> None:
        self._stored = stored
        self._aliases = aliases
        self._known: dict[tuple[str | None, int, int, str, str], _Request] = {}

    def of(self, row: PlacedRow) -> _Request:
        # flavors and image properties of equal servers are one object, which its row keeps alive
        key = row.request_spec_uuid, id(row.flavor), id(row.image_properties), row.project_id, row.user_id
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = self._made(row)
        return known

    def _made(self, row: PlacedRow) -> _Request:
        stored = self._stored.get(row.request_spec_uuid or "")
        if stored is None:
            spec = RequestSpec(row.flavor, project_id=row.project_id, user_id=row.user_id)
            why = dict.fromkeys(KINDS, "the request of the server is not stored")
        else:
            spec, why = replace(stored[0], flavor=row.flavor), {}
        spec = with_resources(spec)
        try:
            needs = needs_of(spec, self._aliases)
        except InvalidRequest as error:
            needs, why = NO_DEVICES, dict.fromkeys(KINDS, error.message)
        guest = guest_kind(row.flavor.flavor_id, row.image_properties)
        disk_gib = _disk_gib(row.flavor, volume_backed=spec.volume_backed)
        return _Request(spec, needs, guest, disk_gib, row.flavor.memory_mib / _MIB_PER_GIB, why)


def _disk_gib(flavor: Flavor, *, volume_backed: bool) -> float:
    root_gib = 0 if volume_backed else flavor.root_gib
    return root_gib + flavor.ephemeral_gib + flavor.swap_mib / _MIB_PER_GIB


class _Movable:
    """The kinds of moves that servers allow by their states and hosts; each distinct combination is computed once."""

    def __init__(self, hosts: HostTable, engine: Engine) -> None:
        self._hosts = hosts
        rule = next((each for each in engine.filters if isinstance(each, ComputeFilter)), ComputeFilter())
        silent = abs(hosts.taken_at - hosts.last_seen) > rule.service_down_time_s
        self._is_up = ~(silent | hosts.forced_down)
        self._known: dict[tuple[str, str | None, bool, int, bool], Mapping[MoveKind, str]] = {}

    def hindrances(self, server: PlacedRow, row: int) -> Mapping[MoveKind, str]:
        profile, is_up = int(self._hosts.profile[row]), bool(self._is_up[row])
        key = server.vm_state, server.task_state, server.launched, profile, is_up
        if key not in self._known:
            self._known[key] = hindrances(
                VmState(server.vm_state),
                None if server.task_state is None else TaskState(server.task_state),
                launched=server.launched,
                source=self._hosts.profiles[profile],
                source_is_up=is_up,
            )
        return self._known[key]
