# SPDX-License-Identifier: Apache-2.0
"""Stray guests: differences between the hosts' last reports of guests and the database.

A stray is a guest on a host where its server is not recorded, or a missing guest of a recorded server.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from kilonova.db.core import tables as t
from kilonova.db.core.statements import insert_missing, pieces
from kilonova.db.core.transaction import Transaction
from kilonova.errors import NotFound
from kilonova.model.found_guest import StrayGuest, StrayKind
from kilonova.model.instance import PowerState
from kilonova.records import dataclass

_O = t.odd_guests.c
#: Maximum number of strays stored for one host, and for all hosts of one process: more than occur even after the
#: restore of an old backup, but too few for a compromised agent to fill the disk.
MOST_OF_A_HOST, MOST_OF_A_PROCESS = 2_000, 50_000


@dataclass(frozen=True, slots=True)
class Differences:
    """Changes that new reports require in the table of stray guests. An object without changes is false.

    ``altered``: strays of another kind or with another recorded host than before. ``switched``: strays of which only
    the power state has changed.
    """

    appeared: tuple[StrayGuest, ...] = ()
    altered: tuple[StrayGuest, ...] = ()
    switched: tuple[StrayGuest, ...] = ()
    gone: tuple[StrayGuest, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.appeared or self.altered or self.switched or self.gone)

    def without_new(self, hosts: Collection[str]) -> "Differences":
        """Return the differences, but without the appeared and altered strays of ``hosts``."""
        appeared = tuple(each for each in self.appeared if each.host not in hosts)
        altered = tuple(each for each in self.altered if each.host not in hosts)
        return replace(self, appeared=appeared, altered=altered)


def differences(
    connection: Connection, odd: Collection[StrayGuest], asked: Mapping[str, Collection[str] | None]
) -> Differences:
    """Compare reports with the stored strays.

    ``asked``: host → the instances that the report of the host covers; None: the report covers all its guests.
    """
    stored = {(each.host, each.instance_uuid): each for each in _of_hosts(connection, list(asked))}
    present = {(each.host, each.instance_uuid): each for each in odd}
    known = [(each, stored[key]) for key, each in present.items() if key in stored]
    gone = [
        each
        for (host, uuid), each in stored.items()
        if (host, uuid) not in present and ((about := asked[host]) is None or uuid in about)
    ]
    appeared = _as_far_as_there_is_room((each for key, each in present.items() if key not in stored), stored)
    return Differences(
        tuple(appeared)[: _room_of_process(connection, asked) if len(present) > len(known) else 0],
        tuple(each for each, before in known if _facts(each) != _facts(before)),
        tuple(
            each for each, before in known if _facts(each) == _facts(before) and each.power_state != before.power_state
        ),
        tuple(gone),
    )


def _as_far_as_there_is_room(appeared: Iterable[StrayGuest], stored: Iterable[tuple[str, str]]) -> Iterable[StrayGuest]:
    counts = Counter(host for host, _ in stored)
    for each in appeared:
        counts[each.host] += 1
        if counts[each.host] <= MOST_OF_A_HOST:
            yield each


def _room_of_process(connection: Connection, hosts: Iterable[str]) -> int:
    """Return how many more strays may be stored for the hosts of one process; ``hosts`` are some of these hosts."""
    host = min(hosts, default="")
    process = sa.select(t.host_agents.c.process).where(t.host_agents.c.host == host).scalar_subquery()
    its_hosts = sa.select(t.host_agents.c.host).where(t.host_agents.c.process == process)
    counted = sa.select(sa.func.count()).select_from(t.odd_guests).where(_O.host.in_(its_hosts))
    return max(0, MOST_OF_A_PROCESS - connection.execute(counted).scalar_one())


def store(tx: Transaction, found: Differences) -> None:
    """Write differences to the table; idempotent."""
    for each in found.gone:
        tx.execute(sa.delete(t.odd_guests).where(*_is(each.host, each.instance_uuid)))
    for each in (*found.altered, *found.switched):
        tx.execute(sa.update(t.odd_guests).where(*_is(each.host, each.instance_uuid)).values(_facts_row(each)))
    for each in found.appeared:
        key = {"host": each.host, "instance_uuid": each.instance_uuid}
        insert_missing(tx, t.odd_guests, {**key, **_facts_row(each), "created_at": tx.now})


def find(connection: Connection, host: str, uuid: str) -> StrayGuest | None:
    """Return the stray record of an instance on a host, or None."""
    row = connection.execute(sa.select(t.odd_guests).where(*_is(host, uuid))).first()
    return None if row is None else _odd(row)


def list_page(
    connection: Connection, *, host: str | None = None, limit: int | None = None, marker: int | None = None
) -> tuple[StrayGuest, ...]:
    """Return one page of strays, oldest first. Raises: NotFound if the marker no longer exists."""
    wanted = sa.select(t.odd_guests).order_by(_O.id).limit(limit)
    if host is not None:
        wanted = wanted.where(_O.host == host)
    if marker is not None:
        if connection.execute(sa.select(_O.id).where(_O.id == marker)).first() is None:
            raise NotFound(f"Marker {marker} no longer exists.")
        wanted = wanted.where(_O.id > marker)
    return tuple(_odd(row) for row in connection.execute(wanted))


def counts(connection: Connection) -> dict[StrayKind, int]:
    """Return the number of strays of each kind."""
    counted = sa.select(_O.oddity, sa.func.count()).group_by(_O.oddity)
    return {StrayKind(name): count for name, count in connection.execute(counted)}


def _of_hosts(connection: Connection, hosts: list[str]) -> Iterable[StrayGuest]:
    for some in pieces(hosts):
        wanted = sa.select(t.odd_guests).where(_O.host.in_(some))
        yield from map(_odd, connection.execute(wanted))


def _is(host: str, uuid: str) -> tuple[sa.ColumnElement[bool], ...]:
    return _O.host == host, _O.instance_uuid == uuid


def _facts(odd: StrayGuest) -> tuple[Any, ...]:
    return odd.oddity, odd.recorded_host


def _facts_row(odd: StrayGuest) -> dict[str, Any]:
    return {
        "oddity": odd.oddity.value,
        "power_state": int(odd.power_state),
        "recorded_host": odd.recorded_host,
    }


def _odd(row: sa.Row[Any]) -> StrayGuest:
    state = PowerState(row.power_state)
    return StrayGuest(
        row.host, row.instance_uuid, StrayKind(row.oddity), state, row.recorded_host, row.created_at, row.id
    )
