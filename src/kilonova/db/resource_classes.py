# SPDX-License-Identifier: Apache-2.0
"""Resource classes: fixed standard classes, and custom classes of the operator."""

from collections.abc import Iterable, Mapping

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from kilonova.db import provider_states
from kilonova.db.core import tables as t
from kilonova.db.core.prepared import Prepared
from kilonova.db.core.statements import insert_missing, mapping
from kilonova.db.core.transaction import Transaction
from kilonova.deadline import heeding
from kilonova.errors import Conflict, InvalidRequest, NotFound
from kilonova.model.vocabulary import Word, is_custom

_IDS = sa.select(t.resource_classes.c.name, t.resource_classes.c.id).where(
    t.resource_classes.c.name.in_(sa.bindparam("names", expanding=True))
)


def list_all(connection: Connection) -> tuple[Word, ...]:
    """Return every resource class, oldest first."""
    table = t.resource_classes
    rows = connection.execute(sa.select(table.c.name, table.c.created_at, table.c.updated_at).order_by(table.c.id))
    return tuple(Word(*row) for row in heeding(rows))


def get(connection: Connection, name: str) -> Word:
    """Return a resource class. Raises: NotFound."""
    table = t.resource_classes
    row = connection.execute(
        sa.select(table.c.name, table.c.created_at, table.c.updated_at).where(table.c.name == name)
    ).first()
    if row is None:
        raise NotFound(f"No such resource class {name}.")
    return Word(*row)


def ids(connection: Connection, names: Iterable[str]) -> Mapping[str, int]:
    """Return name → id of resource classes. Raises: NotFound that names the missing classes."""
    wanted = set(names)
    found: dict[str, int] = mapping(connection, _IDS, names=list(wanted))
    missing = wanted - found.keys()
    if missing:
        raise NotFound(f"No such resource class {', '.join(sorted(missing))}.", names=sorted(missing))
    return found


def ensure(tx: Transaction, name: str) -> bool:
    """Create a resource class unless it exists. Returns whether it is new."""
    return insert_missing(tx, t.resource_classes, {"name": name, "created_at": tx.now})


def create(tx: Transaction, name: str) -> None:
    """Create a resource class. Raises: Conflict."""
    if not ensure(tx, name):
        raise Conflict(f"Conflicting resource class already exists: {name}")


def rename(tx: Transaction, name: str, new_name: str) -> Word:
    """Rename a custom resource class. Raises: NotFound; InvalidRequest for a standard class; Conflict."""
    get(tx.connection, name)
    if not is_custom(name):
        raise InvalidRequest(f"Cannot update standard resource class {name}")
    table = t.resource_classes
    if tx.connection.execute(sa.select(table.c.id).where(table.c.name == new_name)).first() is not None:
        raise Conflict(f"Resource class already exists: {new_name}")
    tx.execute(sa.update(table).where(table.c.name == name).values(name=new_name, updated_at=tx.now))
    holders = sa.select(t.inventories.c.resource_provider_id).join(table).where(table.c.name == new_name)
    provider_states.log_stored(tx, tx.execute(holders).scalars().all())
    return get(tx.connection, new_name)


def delete(tx: Transaction, name: str) -> None:
    """Delete a custom resource class. Raises: NotFound, InvalidRequest for a standard class, Conflict while in use."""
    rows = _USE.rows(tx.connection, name=name)
    if not rows:
        raise NotFound(f"No such resource class {name}.")
    if not is_custom(name):
        raise InvalidRequest(f"Error in delete resource class: Cannot delete standard resource class {name}.")
    ((row_id, is_held, is_allocated),) = rows
    if is_held or is_allocated:
        raise Conflict(
            f"Error in delete resource class: Cannot delete resource class {name}. Class is in use in inventory."
        )
    _DELETE.run(tx.connection, row_id=row_id)


_CLASS = t.resource_classes.c
_USE = Prepared(
    sa.select(
        _CLASS.id,
        sa.exists().where(t.inventories.c.resource_class_id == _CLASS.id),
        sa.exists().where(t.allocations.c.resource_class_id == _CLASS.id),
    ).where(_CLASS.name == sa.bindparam("name"))
)
_DELETE = Prepared(sa.delete(t.resource_classes).where(_CLASS.id == sa.bindparam("row_id")))
