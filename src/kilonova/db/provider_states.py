# SPDX-License-Identifier: Apache-2.0
"""States of providers (inventories, traits, aggregates): read in batches, and logged for the mirrors."""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from kilonova.db.change_log.changes import InventoryFigures, LoggedProvider
from kilonova.db.core import tables as t
from kilonova.db.core.prepared import Prepared
from kilonova.db.core.transaction import Transaction
from kilonova.errors import Conflict
from kilonova.model.provider import Inventory, Provider

_ME = t.resource_providers
_root = _ME.alias("root")
_parent = _ME.alias("parent")
#: Query for providers, with the columns of :class:`Provider`.
PROVIDERS = sa.select(
    _ME.c.id, _ME.c.uuid, _ME.c.name, _ME.c.generation, _root.c.uuid, _parent.c.uuid, _ME.c.created_at, _ME.c.updated_at
).select_from(
    _ME.outerjoin(_root, _ME.c.root_provider_id == _root.c.id).outerjoin(
        _parent, _ME.c.parent_provider_id == _parent.c.id
    )
)


@dataclass(frozen=True, slots=True)
class HeldInventory:
    """An inventory with its used amount."""

    inventory: Inventory
    class_id: int
    used: int = 0


@dataclass(frozen=True, slots=True)
class ProviderState:
    """A provider with its inventories by resource class, its traits (name → id) and its aggregates (uuid → id)."""

    provider: Provider
    inventories: Mapping[str, HeldInventory]
    traits: Mapping[str, int]
    aggregates: Mapping[str, int]


#: Columns of an inventory's figures, including its capacity rounded down.
INVENTORY_COLUMNS = ("total", "reserved", "min_unit", "max_unit", "step_size", "allocation_ratio", "capacity")


def inventory_values(inventory: Inventory) -> dict[str, Any]:
    """Return the columns of an inventory's figures."""
    return {name: getattr(inventory, name) for name in INVENTORY_COLUMNS}


def name_taken(what: str) -> Conflict:
    """Return the Conflict for a name or uuid that another provider has."""
    return Conflict(f"Conflicting resource provider {what} already exists.", placement_code="placement.duplicate_name")


def by_uuid(connection: Connection, uuids: Collection[str]) -> dict[str, ProviderState]:
    """Return uuid → state of the existing providers among ``uuids``."""
    return _with_parts(connection, _BY_UUID.rows(connection, uuids=list(uuids)))


def log(tx: Transaction, state: ProviderState) -> None:
    """Log the whole state of a provider for the mirrors, as absolute values."""
    provider = state.provider
    value = LoggedProvider(
        id=provider.id,
        name=provider.name,
        generation=provider.generation,
        root=provider.root_uuid,
        parent=provider.parent_uuid,
        inventories={name: _figures(held) for name, held in state.inventories.items()},
        traits=sorted(state.traits),
        aggregates=sorted(state.aggregates, key=state.aggregates.__getitem__),
    )
    tx.log("provider", provider.uuid, value)


def _figures(held: HeldInventory) -> InventoryFigures:
    has = held.inventory
    limits = has.min_unit, has.max_unit, has.step_size
    return has.total, has.reserved, *limits, has.allocation_ratio, has.capacity, held.used


def log_stored(tx: Transaction, provider_ids: Collection[int]) -> None:
    """Log the stored states of these providers for the mirrors."""
    if provider_ids:
        found = _BY_ID.rows(tx.connection, ids=list(provider_ids))
        for state in _with_parts(tx.connection, found).values():
            log(tx, state)


def _with_parts(connection: Connection, rows: Collection[Any]) -> dict[str, ProviderState]:
    if not rows:
        return {}
    inventories: dict[int, dict[str, HeldInventory]] = defaultdict(dict)
    links: Mapping[int, dict[int, dict[str, int]]] = {_TRAIT: defaultdict(dict), _AGGREGATE: defaultdict(dict)}
    for part in _PARTS.rows(connection, ids=[row[0] for row in rows]):
        kind, provider_id, name, row_id = part[:4]
        if kind == _INVENTORY:
            used, *figures = part[4:]
            inventories[provider_id][name] = HeldInventory(Inventory(name, *figures), row_id, used)
        else:  # most rows
            links[kind][provider_id][name] = row_id
    traits, aggregates = links.values()
    return {
        row[1]: ProviderState(Provider(*row), inventories[row[0]], traits[row[0]], aggregates[row[0]]) for row in rows
    }


_IDS: sa.BindParameter[Any] = sa.bindparam("ids", expanding=True)
_BY_UUID = Prepared(PROVIDERS.where(_ME.c.uuid.in_(sa.bindparam("uuids", expanding=True))))
_BY_ID = Prepared(PROVIDERS.where(_ME.c.id.in_(_IDS)).order_by(_ME.c.id))
_INVENTORY, _TRAIT, _AGGREGATE = range(3)
_FIGURES = [t.inventories.c[name] for name in ("used", *INVENTORY_COLUMNS) if name != "capacity"]


def _part(kind: int, link: sa.Table, named: sa.Table, key: str, name: str, figures: Sequence[Any]) -> sa.Select[Any]:
    """Return a SELECT of one kind of rows.

    Columns: kind, provider, name and id of the linked row, figures of an inventory.
    """
    columns = (sa.literal_column(str(kind)), link.c.resource_provider_id, named.c[name], named.c.id, *figures)
    return (
        sa.select(*columns)
        .join_from(link, named, named.c.id == link.c[key])
        .where(link.c.resource_provider_id.in_(_IDS))
    )


_NONE = [sa.null() for _ in _FIGURES]
#: Inventories, traits and aggregates by one statement, to save round trips to the server.
_PARTS = Prepared(
    sa.union_all(
        _part(_INVENTORY, t.inventories, t.resource_classes, "resource_class_id", "name", _FIGURES),
        _part(_TRAIT, t.resource_provider_traits, t.traits, "trait_id", "name", _NONE),
        _part(_AGGREGATE, t.resource_provider_aggregates, t.placement_aggregates, "aggregate_id", "uuid", _NONE),
    )
)
