# SPDX-License-Identifier: Apache-2.0
"""Where the last reports of hosts and the database differ: guests that are kept and not recorded there, and such."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from kilonova.db.core import tables as t
from kilonova.db.core.statements import insert_missing
from kilonova.db.core.transaction import Transaction
from kilonova.errors import NotFound
from kilonova.model.found_guest import StrayGuest, StrayKind
from kilonova.model.instance import PowerState

_O = t.odd_guests.c
_AT_ONCE = 500
#: So many of one host are stored, and of all hosts of one process: more than there are anywhere, also after a restore
#: of an old backup, and nothing with which somebody could fill a disk.
MOST_OF_A_HOST, MOST_OF_A_PROCESS = 2_000, 50_000


@dataclass(frozen=True, slots=True)
class Differences:
    """What has to be written so that the table says what reports say. Nothing where they say what it says.

    ``altered``: odd in another way than before; ``switched``: as odd as before, but switched on or off meanwhile.
    """

    appeared: tuple[StrayGuest, ...] = ()
    altered: tuple[StrayGuest, ...] = ()
    switched: tuple[StrayGuest, ...] = ()
    gone: tuple[StrayGuest, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.appeared or self.altered or self.switched or self.gone)

    def without_new(self, hosts: Collection[str]) -> "Differences":
        """Return this without what appeared or is altered on some hosts."""
        appeared = tuple(each for each in self.appeared if each.host not in hosts)
        altered = tuple(each for each in self.altered if each.host not in hosts)
        return replace(self, appeared=appeared, altered=altered)


def differences(
    connection: Connection, odd: Collection[StrayGuest], asked: Mapping[str, Collection[str] | None]
) -> Differences:
    """Compare what reports say with what is stored.

    ``asked``: host → the instances that its report is about; None: the report is about all of them.
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
    """Return how many more are stored of the hosts of the process that these hosts belong to."""
    host = min(hosts, default="")
    process = sa.select(t.host_agents.c.process).where(t.host_agents.c.host == host).scalar_subquery()
    its_hosts = sa.select(t.host_agents.c.host).where(t.host_agents.c.process == process)
    counted = sa.select(sa.func.count()).select_from(t.odd_guests).where(_O.host.in_(its_hosts))
    return max(0, MOST_OF_A_PROCESS - connection.execute(counted).scalar_one())


def store(tx: Transaction, found: Differences) -> None:
    """Write differences; done already is success."""
    for each in found.gone:
        tx.execute(sa.delete(t.odd_guests).where(*_is(each.host, each.instance_uuid)))
    for each in (*found.altered, *found.switched):
        tx.execute(sa.update(t.odd_guests).where(*_is(each.host, each.instance_uuid)).values(_facts_row(each)))
    for each in found.appeared:
        key = {"host": each.host, "instance_uuid": each.instance_uuid}
        insert_missing(tx, t.odd_guests, {**key, **_facts_row(each), "created_at": tx.now})


def find(connection: Connection, host: str, uuid: str) -> StrayGuest | None:
    """Return what is odd about an instance on a host, or None."""
    row = connection.execute(sa.select(t.odd_guests).where(*_is(host, uuid))).first()
    return None if row is None else _odd(row)


def list_page(
    connection: Connection, *, host: str | None = None, limit: int | None = None, marker: int | None = None
) -> tuple[StrayGuest, ...]:
    """Return one page, the oldest first. Raises: NotFound for a marker that is no longer there."""
    wanted = sa.select(t.odd_guests).order_by(_O.id).limit(limit)
    if host is not None:
        wanted = wanted.where(_O.host == host)
    if marker is not None:
        if connection.execute(sa.select(_O.id).where(_O.id == marker)).first() is None:
            raise NotFound(f"There is no entry {marker} any more.")
        wanted = wanted.where(_O.id > marker)
    return tuple(_odd(row) for row in connection.execute(wanted))


def counts(connection: Connection) -> dict[StrayKind, int]:
    """Count them, by what is odd."""
    counted = sa.select(_O.oddity, sa.func.count()).group_by(_O.oddity)
    return {StrayKind(name): count for name, count in connection.execute(counted)}


def _of_hosts(connection: Connection, hosts: list[str]) -> Iterable[StrayGuest]:
    for start in range(0, len(hosts), _AT_ONCE):
        wanted = sa.select(t.odd_guests).where(_O.host.in_(hosts[start : start + _AT_ONCE]))
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
