# SPDX-License-Identifier: Apache-2.0
"""Traits: fixed standard traits, and custom traits of the operator."""

from collections.abc import Collection, Iterable, Mapping

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from kilonova.db.core import tables as t
from kilonova.db.core.prepared import Prepared
from kilonova.db.core.statements import insert_missing, mapping
from kilonova.db.core.transaction import Transaction
from kilonova.deadline import heeding
from kilonova.errors import Conflict, InvalidRequest, NotFound
from kilonova.model.vocabulary import Word, is_custom

_COLUMNS = (t.traits.c.name, t.traits.c.created_at, t.traits.c.updated_at)


def list_matching(
    connection: Connection,
    *,
    names: Collection[str] | None = None,
    prefix: str | None = None,
    associated: bool | None = None,
) -> tuple[Word, ...]:
    """Return traits by names, by prefix, or by whether a provider has them, oldest first."""
    statement = sa.select(*_COLUMNS).order_by(t.traits.c.id)
    if names is not None:
        statement = statement.where(t.traits.c.name.in_(list(names)))
    if prefix is not None:
        # A LIKE is not used, because it ignores case on some databases.
        statement = statement.where(sa.func.substr(t.traits.c.name, 1, len(prefix)) == prefix)
    if associated is not None:
        has_provider = sa.exists().where(t.resource_provider_traits.c.trait_id == t.traits.c.id)
        statement = statement.where(has_provider if associated else ~has_provider)
    return tuple(Word(*row) for row in heeding(connection.execute(statement)))


def get(connection: Connection, name: str) -> Word:
    """Return a trait. Raises: NotFound."""
    row = connection.execute(sa.select(*_COLUMNS).where(t.traits.c.name == name)).first()
    if row is None:
        raise NotFound(f"No such trait(s): {name}.")
    return Word(*row)


def ids(connection: Connection, names: Iterable[str]) -> Mapping[str, int]:
    """Return name → id of traits. Raises: NotFound that names the missing traits."""
    wanted = set(names)
    statement = sa.select(t.traits.c.name, t.traits.c.id).where(t.traits.c.name.in_(wanted))
    found: dict[str, int] = mapping(connection, statement)
    missing = wanted - found.keys()
    if missing:
        raise NotFound(f"No such trait(s): {', '.join(sorted(missing))}.", names=sorted(missing))
    return found


def ensure(tx: Transaction, name: str) -> tuple[bool, Word]:
    """Create a trait unless it exists. Returns whether it was created, and the trait."""
    if insert_missing(tx, t.traits, {"name": name, "created_at": tx.now}):
        return True, Word(name, tx.now)
    return False, get(tx.connection, name)


def delete(tx: Transaction, name: str) -> None:
    """Delete a custom trait. Raises: NotFound, InvalidRequest for a standard trait, Conflict while it is in use."""
    rows = _USE.rows(tx.connection, name=name)
    if not rows:
        raise NotFound(f"No such trait(s): {name}.")
    if not is_custom(name):
        raise InvalidRequest(f"Cannot delete standard trait {name}.")
    ((row_id, in_use),) = rows
    if in_use:
        raise Conflict(f"The trait {name} is in use by a resource provider.")
    _DELETE.run(tx.connection, row_id=row_id)


_LINK = t.resource_provider_traits.c
_USE = Prepared(
    sa.select(t.traits.c.id, sa.exists().where(_LINK.trait_id == t.traits.c.id)).where(
        t.traits.c.name == sa.bindparam("name")
    )
)
_DELETE = Prepared(sa.delete(t.traits).where(t.traits.c.id == sa.bindparam("row_id")))
