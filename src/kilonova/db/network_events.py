# SPDX-License-Identifier: Apache-2.0
"""Stored events of the network service, for workflows that wait for them.

The last event of each name about each port is kept until the workflow that waits for it has ended. Events about servers
without a workflow are not stored, since nothing waits for them.
"""

from collections.abc import Collection, Sequence
from datetime import datetime

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from kilonova.db.core import tables as t
from kilonova.db.core.prepared import Prepared
from kilonova.db.core.statements import pieces
from kilonova.db.core.transaction import Transaction
from kilonova.model.network_event import NetworkEvent, NetworkEventName
from kilonova.records import dataclass

_E = t.network_events.c
_OF_SERVER = Prepared(
    sa.select(_E.name, _E.tag, _E.status, _E.received_at).where(_E.instance_uuid == sa.bindparam("uuid"))
)


@dataclass(frozen=True, slots=True)
class StoredEvent:
    """An event and the time of its arrival, by the database's clock."""

    event: NetworkEvent
    received_at: datetime


def store(tx: Transaction, events: Sequence[NetworkEvent]) -> None:
    """Store events about servers that have a workflow; the last event of a name about a port is kept.

    The events about servers whose workflows have ended are deleted.
    """
    at_rest = _E.instance_uuid.not_in(sa.select(t.workflows.c.instance_uuid))
    tx.execute(sa.delete(t.network_events).where(at_rest))
    uuids = {event.instance_uuid for event in events}
    at_work = sa.select(t.workflows.c.instance_uuid).where(t.workflows.c.instance_uuid.in_(sorted(uuids)))
    awaited = set(tx.execute(at_work).scalars())
    latest = {(event.instance_uuid, event.name, event.tag): event for event in events if event.instance_uuid in awaited}
    for uuid, name, tag in latest:
        tx.execute(sa.delete(t.network_events).where(_E.instance_uuid == uuid, _E.name == name.value, _E.tag == tag))
    if latest:
        rows = [
            {
                "instance_uuid": event.instance_uuid,
                "name": event.name.value,
                "tag": event.tag,
                "status": event.status,
                "received_at": tx.now,
            }
            for event in latest.values()
        ]
        tx.execute(sa.insert(t.network_events), rows)


def of_server(connection: Connection, instance_uuid: str) -> tuple[StoredEvent, ...]:
    """Return the stored events about a server."""
    return tuple(
        StoredEvent(NetworkEvent(NetworkEventName(name), instance_uuid, tag, status), received_at)
        for name, tag, status, received_at in _OF_SERVER.rows(connection, uuid=instance_uuid)
    )


def servers_with_events(connection: Connection, instance_uuids: Collection[str]) -> frozenset[str]:
    """Return those of the given servers about which events are stored."""
    wanted, found = sorted(instance_uuids), set[str]()
    for part in pieces(wanted):
        some = sa.select(_E.instance_uuid).where(_E.instance_uuid.in_(part)).distinct()
        found |= set(connection.execute(some).scalars())
    return frozenset(found)


def forget(tx: Transaction, instance_uuid: str) -> None:
    """Delete the stored events about a server."""
    tx.execute(sa.delete(t.network_events).where(_E.instance_uuid == instance_uuid))
