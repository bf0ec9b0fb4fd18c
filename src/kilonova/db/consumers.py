# SPDX-License-Identifier: Apache-2.0
"""Consumers of Placement: their project and user, their type, and the generation of their allocations."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

import sqlalchemy as sa

from kilonova.db.core import tables as t
from kilonova.db.core.prepared import Prepared
from kilonova.db.core.statements import ManyRows, insert_many, mapping
from kilonova.db.core.transaction import Transaction
from kilonova.errors import ConcurrentUpdate

#: Types of consumers: a server, or a migration, which holds the resources on the source host of a move.
INSTANCE = "INSTANCE"
MIGRATION = "MIGRATION"


class Consumer(NamedTuple):
    """A consumer to write. ``kind``: its type; None keeps the type of an existing consumer."""

    uuid: str
    project_id: str
    user_id: str
    kind: str | None


def generations(tx: Transaction, uuids: Collection[str]) -> dict[str, int]:
    """Return uuid → generation of the existing consumers among ``uuids``."""
    return mapping(tx.connection, _GENERATIONS, uuids=list(uuids)) if uuids else {}


def present(tx: Transaction, uuids: Collection[str]) -> frozenset[str]:
    """Return the uuids of the existing consumers among ``uuids``."""
    return frozenset(generations(tx, sorted(uuids)))


def add(tx: Transaction, new: Sequence[Consumer]) -> None:
    """Insert new consumers."""
    _ADD.run(tx, [each._asdict() for each in new], now=tx.now)


def store(tx: Transaction, consumers: Sequence[Consumer], known: Mapping[str, int]) -> None:
    """Insert or update consumers for new allocations. ``known``: uuid → generation of the consumers that exist.

    Raises: ConcurrentUpdate if a generation has changed.
    """
    add(tx, [each for each in consumers if each.uuid not in known])
    changed = [{**each._asdict(), "generation": known[each.uuid]} for each in consumers if each.uuid in known]
    if _CHANGE.run(tx, changed, now=tx.now) != len(changed):
        raise ConcurrentUpdate(
            "Inventory and/or allocations changed while attempting to allocate: another request wrote one of the "
            "consumers."
        )


def raise_generations(tx: Transaction, uuids: Collection[str]) -> None:
    """Increment the generation of consumers whose allocations change; absent consumers are skipped."""
    if uuids:
        _RAISE.run(tx.connection, uuids=sorted(uuids), now=tx.now)


def remove(tx: Transaction, uuids: Collection[str]) -> None:
    """Delete consumers, which must have no allocations; no error if absent."""
    if uuids:
        _DELETE.run(tx.connection, uuids=list(uuids))


_CONSUMER = t.consumers.c
_UUIDS: sa.BindParameter[Any] = sa.bindparam("uuids", expanding=True)
_NOW = sa.bindparam("now", type_=t.Time)
_GENERATIONS = Prepared(sa.select(_CONSUMER.uuid, _CONSUMER.generation).where(_CONSUMER.uuid.in_(_UUIDS)))
_RAISE = Prepared(
    sa.update(t.consumers)
    .where(_CONSUMER.uuid.in_(_UUIDS))
    .values(generation=_CONSUMER.generation + 1, updated_at=_NOW)
)
_DELETE = Prepared(sa.delete(t.consumers).where(_CONSUMER.uuid.in_(_UUIDS)))
_ADD = insert_many(
    t.consumers,
    {"uuid": "uuid", "project_id": "project_id", "user_id": "user_id", "consumer_type": "kind"},
    generation=sa.literal(1),
    created_at=_NOW,
)
_CHANGE = ManyRows(
    {
        "uuid": _CONSUMER.uuid.type,
        "project_id": _CONSUMER.project_id.type,
        "user_id": _CONSUMER.user_id.type,
        "kind": _CONSUMER.consumer_type.type,
        "generation": sa.BigInteger(),
    },
    lambda given: (
        sa.update(t.consumers)
        .where(_CONSUMER.uuid == given["uuid"], _CONSUMER.generation == given["generation"])
        .values(
            project_id=given["project_id"],
            user_id=given["user_id"],
            consumer_type=sa.func.coalesce(given["kind"], _CONSUMER.consumer_type),
            generation=_CONSUMER.generation + 1,
            updated_at=_NOW,
        )
    ),
)
