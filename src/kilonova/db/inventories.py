# SPDX-License-Identifier: Apache-2.0
"""Inventories of providers, one per resource class. A change of an inventory never changes its ``used``."""

import dataclasses
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from kilonova.db.core import tables as t
from kilonova.db.core.transaction import Transaction
from kilonova.db.provider_edits import Change, ProviderEdit, advanced, edit, unless_changed
from kilonova.db.provider_states import HeldInventory, ProviderState, Vocabulary
from kilonova.errors import ConcurrentUpdate, Conflict, InvalidRequest, NotFound
from kilonova.model.provider import Inventory, Provider
from kilonova.records import dataclass

IN_USE = "placement.inventory.inuse"


@dataclass(frozen=True, slots=True)
class StoredInventory:
    """A stored inventory. ``changed_at``: time of its last write."""

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


def added(inventory: Inventory) -> Change:
    """Return the change that adds an inventory.

    The change raises NotFound for an unknown class, and ConcurrentUpdate if the inventory exists.
    """

    def change(state: ProviderState, words: Vocabulary) -> ProviderState:
        held = HeldInventory(inventory, words.class_id(inventory.resource_class))
        if inventory.resource_class in state.inventories:
            raise ConcurrentUpdate(
                f"Update conflict: the provider has an inventory of {inventory.resource_class} already."
            )
        return with_inventories(advanced(state), {**state.inventories, inventory.resource_class: held})

    return change


def changed(inventory: Inventory) -> Change:
    """Return the change that replaces one inventory.

    The change raises NotFound for an unknown class, and InvalidRequest if the inventory does not exist.
    """

    def change(state: ProviderState, words: Vocabulary) -> ProviderState:
        name = inventory.resource_class
        class_id, before = words.class_id(name), state.inventories.get(name)
        if before is None:
            raise InvalidRequest(
                "No inventory record with resource class for resource provider "
                f"{state.provider.uuid}: it has no {name} to change."
            )
        held = HeldInventory(inventory, class_id, before.used)
        return with_inventories(advanced(state), {**state.inventories, name: held})

    return change


def all_changed(inventories: Sequence[Inventory]) -> Change:
    """Return the change that replaces all inventories.

    The change raises NotFound for an unknown class, and Conflict if it would remove an inventory that is in use.
    """

    def change(state: ProviderState, words: Vocabulary) -> ProviderState:
        unknown = sorted({one.resource_class for one in inventories} - words.class_ids.keys())
        if unknown:
            raise NotFound(f"No such resource class {', '.join(unknown)}.", names=unknown)
        wanted = stored(state, words, inventories)
        _require_unused(state, state.inventories.keys() - wanted.keys())
        return with_inventories(advanced(state), wanted)

    return change


def removed(resource_class: str) -> Change:
    """Return the change that removes one inventory.

    The change raises NotFound for an unknown class or inventory, and Conflict if the inventory is in use.
    """

    def change(state: ProviderState, words: Vocabulary) -> ProviderState:
        words.class_id(resource_class)
        if resource_class not in state.inventories:
            raise NotFound(f"No inventory of class {resource_class} found for delete")
        _require_unused(state, {resource_class})
        kept = {name: held for name, held in state.inventories.items() if name != resource_class}
        return with_inventories(advanced(state), kept)

    return change


def replace(tx: Transaction, provider: Provider, inventories: Sequence[Inventory]) -> int:
    """Replace all inventories of a provider if its stored generation equals that in ``provider``; return the new one.

    Raises: NotFound for an unknown class; Conflict if a removed inventory is in use; ConcurrentUpdate.
    """
    change = unless_changed(provider.generation, all_changed(inventories))
    return edit(tx, ProviderEdit(provider.uuid, change, [one.resource_class for one in inventories])).generation


def stored(state: ProviderState, words: Vocabulary, inventories: Iterable[Inventory]) -> dict[str, HeldInventory]:
    """Return inventories by resource class in stored form, with their present usage."""
    return {
        one.resource_class: HeldInventory(one, words.class_ids[one.resource_class], used_of(state, one.resource_class))
        for one in inventories
    }


def used_of(state: ProviderState, resource_class: str) -> int:
    """Return the used amount of a resource class."""
    held = state.inventories.get(resource_class)
    return 0 if held is None else held.used


def with_inventories(state: ProviderState, inventories: Mapping[str, HeldInventory]) -> ProviderState:
    """Return the provider's state with other inventories."""
    return dataclasses.replace(state, inventories=inventories)


def without_others(state: ProviderState, kept: Collection[str]) -> ProviderState:
    """Return the provider's state without inventories of other classes than ``kept``.

    Raises: Conflict if one is in use.
    """
    _require_unused(state, state.inventories.keys() - set(kept))
    return with_inventories(state, {name: held for name, held in state.inventories.items() if name in kept})


def _require_unused(state: ProviderState, names: Collection[str]) -> None:
    """Check that no inventory of these classes is in use. Raises: Conflict."""
    used = {name for name in names if state.inventories[name].used}
    if used:
        listed = ", ".join(sorted(used, key=lambda name: state.inventories[name].class_id))
        raise Conflict(
            f"Inventory for '{listed}' on resource provider '{state.provider.uuid}' in use.", placement_code=IN_USE
        )
