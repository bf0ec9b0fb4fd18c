# SPDX-License-Identifier: Apache-2.0
"""States of providers (inventories, traits, aggregates): read in batches, and logged for the mirrors.

One statement reads the states, and the ids of the names that an edit uses: each statement is a round trip to the
database server.
"""

from collections.abc import Collection, Mapping
from dataclasses import field
from functools import cache
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from kilonova.db.change_log.changes import InventoryFigures, LoggedProvider
from kilonova.db.core import tables as t
from kilonova.db.core.prepared import Prepared
from kilonova.db.core.transaction import Transaction
from kilonova.errors import Conflict, NotFound
from kilonova.model.provider import Inventory, Provider
from kilonova.model.vocabulary import Word
from kilonova.records import dataclass

_ME = t.resource_providers
_root = _ME.alias("root")
_parent = _ME.alias("parent")
_FACTS = (_ME.c.uuid, _ME.c.name, _ME.c.generation, _root.c.uuid, _parent.c.uuid, _ME.c.created_at, _ME.c.updated_at)
_WITH_TREE = _ME.outerjoin(_root, _ME.c.root_provider_id == _root.c.id).outerjoin(
    _parent, _ME.c.parent_provider_id == _parent.c.id
)
#: Query for providers, with the columns of :class:`Provider`.
PROVIDERS = sa.select(_ME.c.id, *_FACTS).select_from(_WITH_TREE)


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


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """Ids of the resource classes, traits and aggregates that edits use. ``traits``: name → stored trait."""

    class_ids: Mapping[str, int]
    trait_ids: Mapping[str, int] = field(default_factory=dict)
    traits: Mapping[str, Word] = field(default_factory=dict)
    aggregate_ids: Mapping[str, int] = field(default_factory=dict)

    def class_id(self, name: str) -> int:
        """Return the id of a resource class. Raises: NotFound."""
        if name not in self.class_ids:
            raise NotFound(f"No such resource class {name}.", names=[name])
        return self.class_ids[name]


#: Columns of an inventory's figures, including its capacity rounded down.
INVENTORY_COLUMNS = ("total", "reserved", "min_unit", "max_unit", "step_size", "allocation_ratio", "capacity")


def inventory_values(inventory: Inventory) -> dict[str, Any]:
    """Return the columns of an inventory's figures."""
    return {
        "total": inventory.total,
        "reserved": inventory.reserved,
        "min_unit": inventory.min_unit,
        "max_unit": inventory.max_unit,
        "step_size": inventory.step_size,
        "allocation_ratio": inventory.allocation_ratio,
        "capacity": inventory.capacity,
    }


def name_taken(what: str) -> Conflict:
    """Return the Conflict for a name or uuid that another provider has."""
    return Conflict(f"Conflicting resource provider {what} already exists.", placement_code="placement.duplicate_name")


def by_uuid(connection: Connection, uuids: Collection[str]) -> dict[str, ProviderState]:
    """Return uuid → state of the existing providers among ``uuids``."""
    return _states(_reading("uuid").rows(connection, given=list(uuids)))[0]


def with_words(
    connection: Connection,
    uuids: Collection[str],
    *,
    classes: Collection[str] = (),
    traits: Collection[str] = (),
    aggregates: Collection[str] = (),
) -> tuple[dict[str, ProviderState], Vocabulary]:
    """Return uuid → state of the existing providers, and the ids of the existing ones among the given names."""
    named = {"classes": list(classes), "traits": list(traits), "aggregates": list(aggregates)}
    asked = {key: names for key, names in named.items() if names}
    return _states(_reading("uuid", *asked).rows(connection, given=list(uuids), **asked))


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
        states, _ = _states(_reading("id").rows(tx.connection, given=list(provider_ids)))
        for state in sorted(states.values(), key=lambda state: state.provider.id):
            log(tx, state)


# --- reading --------------------------------------------------------------------------------------------------------

#: Kinds of rows: a provider with one of its inventories or none, a link of a provider, and a word.
_PROVIDER, _HAS_TRAIT, _HAS_AGGREGATE, _CLASS, _TRAIT, _AGGREGATE = range(6)
_FIGURES = [t.inventories.c[name] for name in ("used", *INVENTORY_COLUMNS) if name != "capacity"]


def _states(rows: Collection[Any]) -> tuple[dict[str, ProviderState], Vocabulary]:
    """Return the provider states and the vocabulary in the rows of :func:`_reading`."""
    states: dict[int, ProviderState] = {}
    inventories: dict[int, dict[str, HeldInventory]] = {}
    links: dict[int, tuple[dict[str, int], dict[str, int]]] = {}
    class_ids: dict[str, int] = {}
    trait_ids: dict[str, int] = {}
    aggregate_ids: dict[str, int] = {}
    words: dict[str, Word] = {}
    for row in rows:
        kind = row[0]
        if kind == _HAS_TRAIT:  # most rows
            links[row[1]][0][row[2]] = row[3]
            continue
        provider_id, name, row_id = row[1:4]
        if kind == _HAS_AGGREGATE:
            links[provider_id][1][name] = aggregate_ids[name] = row_id
        elif kind == _PROVIDER:
            if provider_id not in states:
                inventories[provider_id], links[provider_id] = {}, ({}, {})
                states[provider_id] = ProviderState(
                    Provider(provider_id, *row[11:]), inventories[provider_id], *links[provider_id]
                )
            if name is not None:
                class_ids[name] = row_id
                inventories[provider_id][name] = HeldInventory(Inventory(name, *row[5:11]), row_id, row[4])
        elif kind == _TRAIT:
            trait_ids[name] = row_id
            words[name] = Word(name, *row[-2:])
        else:
            (class_ids if kind == _CLASS else aggregate_ids)[name] = row_id
    found = {state.provider.uuid: state for state in states.values()}
    return found, Vocabulary(class_ids, trait_ids, words, aggregate_ids)


@cache
def _reading(key: str, *named: str) -> Prepared:
    """Return the statement that reads the states of providers, and the words of these kinds.

    ``key``: the column of the providers that is in the parameter ``given``. Columns: kind of the row, provider id, name
    and id of the linked row or word, figures of an inventory, facts of a provider. A provider precedes its links.
    """
    chosen = _ME.c[key].in_(sa.bindparam("given", expanding=True))
    held, classes = t.inventories, t.resource_classes
    columns = sa.literal_column(str(_PROVIDER)), _ME.c.id, classes.c.name, classes.c.id, *_FIGURES, *_FACTS
    providers = (
        sa.select(*columns)
        .select_from(_WITH_TREE)
        .outerjoin(held, held.c.resource_provider_id == _ME.c.id)
        .outerjoin(classes, classes.c.id == held.c.resource_class_id)
        .where(chosen)
    )
    return Prepared(
        sa.union_all(
            providers,
            _links(_HAS_TRAIT, t.resource_provider_traits, t.traits.c.name, "trait_id").where(chosen),
            _links(_HAS_AGGREGATE, t.resource_provider_aggregates, t.placement_aggregates.c.uuid, "aggregate_id").where(
                chosen
            ),
            *(_words(parameter) for parameter in named),
        )
    )


def _links(kind: int, links: sa.Table, name: sa.Column[Any], key: str) -> sa.Select[Any]:
    row_id = name.table.c.id
    return (
        sa.select(sa.literal_column(str(kind)), _ME.c.id, name, row_id, *_nulls(len(_FIGURES) + len(_FACTS)))
        .join_from(_ME, links, links.c.resource_provider_id == _ME.c.id)
        .join(name.table, row_id == links.c[key])
    )


def _words(parameter: str) -> sa.Select[Any]:
    kind, name, *times = _NAMED[parameter]
    nulls = _nulls(len(_FIGURES) + len(_FACTS) - 2)
    return sa.select(
        sa.literal_column(str(kind)), sa.null(), name, name.table.c.id, *nulls, *(times or _nulls(2))
    ).where(name.in_(sa.bindparam(parameter, expanding=True)))


def _nulls(count: int) -> list[Any]:
    return [sa.null() for _ in range(count)]


#: Parameter with names → kind of their rows, column of the name, columns of the times.
_NAMED: Mapping[str, tuple[Any, ...]] = {
    "classes": (_CLASS, t.resource_classes.c.name),
    "traits": (_TRAIT, t.traits.c.name, t.traits.c.created_at, t.traits.c.updated_at),
    "aggregates": (_AGGREGATE, t.placement_aggregates.c.uuid),
}
