# SPDX-License-Identifier: Apache-2.0
"""Decision about each guest that a host reports: keep it, remove it, or record it as stray guest (ADR 21).

::

        server recorded on this host,
            or moving from or to this host          ──▶ keep
        guest without a mark of this cloud          ──▶ stray
        a removal record for this host, written
            after the guest was created             ──▶ remove
        any other guest                             ──▶ stray

A database that was restored from a backup lacks the latest servers and moves. So a guest is never removed because its
server is recorded elsewhere, and a removal record does not apply to a guest that was created after the record was
written.
"""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import field
from datetime import datetime

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from kilonova.db import pending_removals, server_migrations
from kilonova.db.core import tables as t
from kilonova.db.core.prepared import Prepared
from kilonova.db.core.statements import pieces
from kilonova.model.found_guest import FoundGuest, Removal, RemovalReason, StrayGuest, StrayKind
from kilonova.model.instance import VmState
from kilonova.model.server_migration import OPEN, MigrationStatus, ServerMigration
from kilonova.records import dataclass

#: The guests that hosts report: host → instance uuid → guest.
Found = Mapping[str, Mapping[str, FoundGuest]]
_I, _M = t.instances.c, t.server_migrations.c
_PLACES = Prepared(
    sa.select(_I.uuid, _I.host, _I.deleted, _I.deleted_at).where(_I.uuid.in_(sa.bindparam("uuids", expanding=True)))
)
_ENDED = Prepared(
    sa.select(_M.instance_uuid, _M.status, _M.source_host, _M.dest_host, _M.created_at, _M.updated_at).where(
        _M.instance_uuid.in_(sa.bindparam("uuids", expanding=True)), _M.status.not_in([each.value for each in OPEN])
    )
)
_WELL = {MigrationStatus.CONFIRMED, MigrationStatus.COMPLETED}
#: States in which a server without a task has a guest on its recorded host.
_WITH_GUEST = [
    state.value
    for state in (
        VmState.ACTIVE,
        VmState.PAUSED,
        VmState.SUSPENDED,
        VmState.STOPPED,
        VmState.RESCUED,
        VmState.RESIZED,
        VmState.SOFT_DELETED,
    )
]
_AT_REST = _I.deleted.is_(False), _I.task_state.is_(None), _I.vm_state.in_(_WITH_GUEST)


@dataclass(frozen=True, slots=True)
class Examined:
    """The decisions about the guests of some hosts. Kept guests are not listed.

    ``removals``: host → guests to remove there. ``odd``: stray guests.
    """

    removals: Mapping[str, tuple[Removal, ...]] = field(default_factory=dict)
    odd: tuple[StrayGuest, ...] = ()


@dataclass(frozen=True, slots=True)
class _Place:
    """Recorded place of a server. ``hosts``: both hosts while the server moves. ``deleted_at``: None unless deleted."""

    host: str | None
    hosts: frozenset[str]
    deleted_at: datetime | None


@dataclass(frozen=True, slots=True)
class _Record:
    """A reason to remove a guest, recorded at ``at``.

    ``keeps``: the guest is powered off and kept instead of removed, because the rollback of a move may need the guest.
    """

    departure: RemovalReason
    at: datetime
    keeps: bool = False


def examine(connection: Connection, found: Found, now: datetime) -> Examined:
    """Decide about the guests that hosts report. ``now``: time by the clock of the database, as in the records."""
    uuids = sorted({uuid for guests in found.values() for uuid in guests})
    removals: dict[str, list[Removal]] = defaultdict(list)
    odd: list[StrayGuest] = []
    for chunk in pieces(uuids):
        places, moves = _places(connection, chunk)
        suspects = [
            (host, uuid, guests[uuid])
            for host, guests in found.items()
            for uuid in chunk
            if uuid in guests and not (uuid in places and host in places[uuid].hosts)
        ]
        records = _records(connection, {uuid for _, uuid, _ in suspects}, places, moves) if suspects else {}
        for host, uuid, guest in suspects:
            verdict = _verdict(host, uuid, guest, places.get(uuid), records, now)
            if isinstance(verdict, Removal):
                removals[host].append(verdict)
            else:
                odd.append(verdict)
    return Examined({host: tuple(each) for host, each in removals.items()}, tuple(odd))


def belongs(connection: Connection, host: str, uuid: str) -> bool:
    """Return whether a server is recorded on a host, or moves from or to it."""
    places, _ = _places(connection, [uuid])
    return uuid in places and host in places[uuid].hosts


def is_at_rest(connection: Connection, host: str, uuid: str) -> bool:
    """Return whether a server is recorded on a host, has no task, and is in a state in which it has a guest."""
    wanted = sa.select(_I.id).where(_I.uuid == uuid, _I.host == host, *_AT_REST)
    return connection.execute(wanted).first() is not None


def missing(connection: Connection, found: Found) -> tuple[StrayGuest, ...]:
    """Return servers without a task that are recorded on these hosts although the hosts report no guest for them."""
    lacking: list[StrayGuest] = []
    hosts = list(found)
    for some in pieces(hosts):
        here = _I.host.in_(some)
        wanted = sa.select(_I.uuid, _I.host).where(here, *_AT_REST)
        lacking += [
            StrayGuest(row.host, row.uuid, StrayKind.MISSING, recorded_host=row.host)
            for row in connection.execute(wanted)
            if row.uuid not in found[row.host]
        ]
    return tuple(lacking)


def _verdict(
    host: str,
    uuid: str,
    guest: FoundGuest,
    place: _Place | None,
    records: Mapping[tuple[str, str], Sequence[_Record]],
    now: datetime,
) -> Removal | StrayGuest:
    """Decide about one guest on a host where its server is not recorded. Reason LEFT takes precedence over DELETED."""
    known = list(records.get((host, uuid), ()))
    if place is not None and place.deleted_at is not None:
        known.append(_Record(RemovalReason.DELETED, place.deleted_at))
    for record in sorted(known, key=lambda each: (each.departure is RemovalReason.LEFT, each.at), reverse=True):
        age_s = max(0.0, (now - record.at).total_seconds())
        removal = Removal(uuid, record.departure, record.at, age_s, record.keeps)
        if removal.covers(guest.ordered_at):
            return removal
    recorded = None if place is None else place.host
    return StrayGuest(host, uuid, _oddity(guest, place, has_record=bool(known)), guest.power_state, recorded)


def _oddity(guest: FoundGuest, place: _Place | None, *, has_record: bool) -> StrayKind:
    if guest.ordered_at is None:
        return StrayKind.UNMARKED
    if has_record:
        return StrayKind.NEWER
    if place is None:
        return StrayKind.UNKNOWN
    return StrayKind.NOWHERE if place.host is None else StrayKind.ELSEWHERE


def _places(connection: Connection, uuids: Sequence[str]) -> tuple[dict[str, _Place], Sequence[ServerMigration]]:
    """Return uuid → recorded place, and the open moves, of these servers; servers that were purged are left out."""
    open_moves = server_migrations.open_of(connection, uuids)
    sides: dict[str, frozenset[str]] = defaultdict(frozenset)
    for move in open_moves:
        evacuated = {move.source_host} if move.has_left else set()
        sides[move.instance_uuid] |= move.hosts - evacuated
    places: dict[str, _Place] = {}
    for uuid, host, is_deleted, deleted_at in _PLACES.rows(connection, uuids=uuids):
        hosts = frozenset() if is_deleted or host is None else sides[uuid] | {host}
        places[uuid] = _Place(host, hosts, deleted_at if is_deleted else None)
    return places, open_moves


def _records(
    connection: Connection, uuids: Collection[str], places: Mapping[str, _Place], moves: Sequence[ServerMigration]
) -> dict[tuple[str, str], list[_Record]]:
    """Return (host, uuid) → recorded reasons to remove the guest, other than the deletion of its server."""
    records: dict[tuple[str, str], list[_Record]] = defaultdict(list)
    for key, (departure, at) in pending_removals.of(connection, uuids).items():
        records[key].append(_Record(departure, at))
    for move in moves:
        left_at = move.updated_at or move.created_at
        if move.has_left and left_at is not None:
            keeps = move.status is not MigrationStatus.DONE
            records[move.source_host, move.instance_uuid].append(_Record(RemovalReason.LEFT, left_at, keeps))
    for host, uuid, at in _left_by_moves(connection, uuids):
        deleted_at = places[uuid].deleted_at if uuid in places else None
        ended_by_delete = deleted_at is not None and at >= deleted_at
        records[host, uuid].append(_Record(RemovalReason.DELETED if ended_by_delete else RemovalReason.LEFT, at))
    return records


def _left_by_moves(connection: Connection, uuids: Collection[str]) -> Iterator[tuple[str, str, datetime]]:
    """Yield (host, uuid, time) for each ended move.

    The host is the one that the server has left: the source of a successful move, and the destination of a failed move.
    """
    for uuid, status, source, dest, created_at, updated_at in _ENDED.rows(connection, uuids=list(uuids)):
        if dest is not None and dest != source:
            yield (source if status in _WELL else dest), uuid, updated_at or created_at
