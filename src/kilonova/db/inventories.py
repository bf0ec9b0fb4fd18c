# SPDX-License-Identifier: Apache-2.0
"""What providers have: one inventory a resource class. Changing one never touches what is used of it."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from kilonova.db import providers, resource_classes
from kilonova.db import tables as t
from kilonova.db.statements import insert_missing
from kilonova.db.transaction import Transaction
from kilonova.errors import ConcurrentUpdate, Conflict, InvalidRequest, NotFound
from kilonova.model.provider import Inventory, Provider

IN_USE = "placement.inventory.inuse"


@dataclass(frozen=True, slots=True)
class StoredInventory:
    """An inventory as the database holds it. ``changed_at`` is when it was last written."""

    inventory: Inventory
    used: int
    changed_at: datetime


def of_provider(connection: Connection, provider_id: int) -> tuple[StoredInventory, ...]:
    """Return every inventory of a provider."""
    table = t.inventories
    rows = connection.execute(
        sa.select(
            t.resource_classes.c.name,
            table.c.total,
            table.c.reserved,
            table.c.min_unit,
            table.c.max_unit,
            table.c.step_size,
            table.c.allocation_ratio,
            table.c.used,
            sa.func.coalesce(table.c.updated_at, table.c.created_at),
        )
        .join(t.resource_classes, t.resource_classes.c.id == table.c.resource_class_id)
        .where(table.c.resource_provider_id == provider_id)
        .order_by(table.c.resource_class_id)
    )
    return tuple(StoredInventory(Inventory(*values), used, changed_at) for *values, used, changed_at in rows)


def create(tx: Transaction, provider: Provider, inventory: Inventory) -> int:
    """Add one inventory and return the new generation. Raises: NotFound for the class, ConcurrentUpdate if present."""
    class_id = resource_classes.ids(tx.connection, [inventory.resource_class])[inventory.resource_class]
    generation = providers.advance(tx, provider)
    if not _insert(tx, provider.id, class_id, inventory):
        raise ConcurrentUpdate(f"Update conflict: the provider has an inventory of {inventory.resource_class} already.")
    providers.log_provider(tx, provider.id)
    return generation


def update(tx: Transaction, provider: Provider, inventory: Inventory) -> int:
    """Change one inventory and return the new generation. Raises: InvalidRequest if there is none, ConcurrentUpdate."""
    class_id = resource_classes.ids(tx.connection, [inventory.resource_class])[inventory.resource_class]
    generation = providers.advance(tx, provider)
    if not _update(tx, provider.id, class_id, inventory):
        raise InvalidRequest(
            "No inventory record with resource class for resource provider "
            f"{provider.uuid}: it has no {inventory.resource_class} to change."
        )
    providers.log_provider(tx, provider.id)
    return generation


def replace(tx: Transaction, provider: Provider, inventories: Sequence[Inventory]) -> int:
    """Make these the provider's inventories and return the new generation.

    Raises: NotFound for a class, Conflict when one that goes is in use, ConcurrentUpdate.
    """
    class_ids = resource_classes.ids(tx.connection, [inventory.resource_class for inventory in inventories])
    generation = providers.advance(tx, provider)
    store(tx, provider.id, inventories)
    remove_others(tx, provider, set(class_ids.values()))
    providers.log_provider(tx, provider.id)
    return generation


def delete(tx: Transaction, provider: Provider, resource_class: str) -> None:
    """Remove one inventory. Raises: NotFound, Conflict while it is in use, ConcurrentUpdate."""
    table = t.inventories
    class_id = resource_classes.ids(tx.connection, [resource_class])[resource_class]
    row = (table.c.resource_provider_id == provider.id) & (table.c.resource_class_id == class_id)
    if tx.connection.execute(sa.select(table.c.used).where(row)).first() is None:
        raise NotFound(f"No inventory of class {resource_class} found for delete")
    providers.advance(tx, provider)
    _delete(tx, provider, [class_id])
    providers.log_provider(tx, provider.id)


def store(tx: Transaction, provider_id: int, inventories: Sequence[Inventory]) -> None:
    """Insert or update inventories, leaving others alone. The caller holds the provider's generation and logs."""
    class_ids = resource_classes.ids(tx.connection, [inventory.resource_class for inventory in inventories])
    for inventory in sorted(inventories, key=lambda inventory: class_ids[inventory.resource_class]):
        class_id = class_ids[inventory.resource_class]
        if not _update(tx, provider_id, class_id, inventory):
            _insert(tx, provider_id, class_id, inventory)


def remove_others(tx: Transaction, provider: Provider, kept: Collection[int]) -> None:
    """Remove every inventory whose class is not among the ids ``kept``. Raises: Conflict while one is in use."""
    table = t.inventories
    present = tx.connection.execute(
        sa.select(table.c.resource_class_id).where(table.c.resource_provider_id == provider.id)
    ).scalars()
    _delete(tx, provider, sorted(set(present) - set(kept)))


def _values(inventory: Inventory) -> dict[str, Any]:
    return providers.inventory_values(inventory)


def _insert(tx: Transaction, provider_id: int, class_id: int, inventory: Inventory) -> bool:
    keys = {"resource_provider_id": provider_id, "resource_class_id": class_id, "used": 0, "created_at": tx.now}
    return insert_missing(tx, t.inventories, {**_values(inventory), **keys})


def _update(tx: Transaction, provider_id: int, class_id: int, inventory: Inventory) -> bool:
    table = t.inventories
    statement = sa.update(table).where(
        table.c.resource_provider_id == provider_id, table.c.resource_class_id == class_id
    )
    return tx.execute(statement.values(**_values(inventory), updated_at=tx.now)).rowcount == 1


def _delete(tx: Transaction, provider: Provider, class_ids: Sequence[int]) -> None:
    table = t.inventories
    rows = (table.c.resource_provider_id == provider.id) & table.c.resource_class_id.in_(list(class_ids))
    if not class_ids or tx.execute(sa.delete(table).where(rows, table.c.used == 0)).rowcount == len(class_ids):
        return
    names = sa.select(t.resource_classes.c.name).join(table, table.c.resource_class_id == t.resource_classes.c.id)
    used = ", ".join(tx.execute(names.where(rows).order_by(t.resource_classes.c.id)).scalars())
    raise Conflict(f"Inventory for '{used}' on resource provider '{provider.uuid}' in use.", placement_code=IN_USE)
