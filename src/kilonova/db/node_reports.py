# SPDX-License-Identifier: Apache-2.0
"""What an agent reports of its hypervisor: the inventories and traits of a root provider."""

import re
from collections.abc import Sequence

import sqlalchemy as sa

from kilonova.db import provider_states, providers
from kilonova.db import tables as t
from kilonova.db.provider_states import inventory_values
from kilonova.db.statements import mapping
from kilonova.db.transaction import Transaction
from kilonova.errors import InvalidRequest
from kilonova.model.provider import Inventory

_MAX_INTEGER = 2**31 - 1
#: As the Placement API takes them.
_CUSTOM = re.compile(r"CUSTOM_[A-Z0-9_]{1,248}")
#: Set by the API when a compute service is disabled; an agent's report leaves it alone.
STATUS_DISABLED = "COMPUTE_STATUS_DISABLED"
#: Beginnings of the traits that agents report. All others are the operators', ``MISC_SHARES_VIA_AGGREGATE`` for one.
_REPORTED = ("COMPUTE_", "HW_", "OWNER_")


def ensure_for_node(
    tx: Transaction, uuid: str, name: str, inventories: Sequence[Inventory], traits: Sequence[str]
) -> int:
    """Bring the root provider of a hypervisor to what its agent reports; repeating it changes nothing.

    Keeps what is used, ``COMPUTE_STATUS_DISABLED`` and traits of kinds that no agent reports. A class that is still
    allocated stays although the agent no longer reports it. Returns the row id.

    Raises: InvalidRequest for a resource class or trait that is neither known nor ``CUSTOM_``, and for impossible
    numbers.
    """
    for inventory in inventories:
        _require_possible(inventory)
    provider = providers.find(tx.connection, uuid)
    if provider is None:
        provider = providers.create(tx, uuid, name)
    changed = _report_inventories(tx, provider.id, inventories)
    changed = _report_traits(tx, provider.id, traits) or changed
    if provider.name != name:
        providers.require_free(tx.connection, name)
        table = t.resource_providers
        tx.execute(sa.update(table).where(table.c.id == provider.id).values(name=name))
        changed = True
    if changed:
        providers.touch(tx, [provider.id])
        provider_states.log_stored(tx, [provider.id])
    return provider.id


def _require_possible(inventory: Inventory) -> None:
    """Hold what an agent says to what the Placement API takes. Raises: InvalidRequest."""
    numbers = inventory.total, inventory.reserved, inventory.min_unit, inventory.max_unit, inventory.step_size
    ratio = inventory.allocation_ratio
    if not all(0 <= number <= _MAX_INTEGER for number in numbers) or not 0 < ratio < float("inf"):
        raise InvalidRequest(f"There can be no such inventory: {inventory}.")


def _report_inventories(tx: Transaction, provider_id: int, inventories: Sequence[Inventory]) -> bool:
    table = t.inventories
    class_ids = _known(tx, t.resource_classes, [inventory.resource_class for inventory in inventories])
    present = {
        row["resource_class_id"]: row
        for row in tx.connection.execute(sa.select(table).where(table.c.resource_provider_id == provider_id)).mappings()
    }
    changed = False
    for inventory in inventories:
        class_id = class_ids[inventory.resource_class]
        values = inventory_values(inventory)
        old = present.pop(class_id, None)
        if old is None:
            keys = {"resource_provider_id": provider_id, "resource_class_id": class_id, "used": 0, "created_at": tx.now}
            tx.execute(sa.insert(table), {**values, **keys})
        elif any(old[name] != value for name, value in values.items()):
            row = sa.update(table).where(
                table.c.resource_provider_id == provider_id, table.c.resource_class_id == class_id
            )
            tx.execute(row.values(**values, updated_at=tx.now))
        else:
            continue
        changed = True
    for class_id in present:
        unused = (
            (table.c.resource_provider_id == provider_id)
            & (table.c.resource_class_id == class_id)
            & (table.c.used == 0)
        )
        changed = tx.execute(sa.delete(table).where(unused)).rowcount > 0 or changed
    return changed


def _report_traits(tx: Transaction, provider_id: int, traits: Sequence[str]) -> bool:
    links = t.resource_provider_traits
    wanted = _known(tx, t.traits, traits)
    mine = sa.select(t.traits.c.name, t.traits.c.id).join(links, links.c.trait_id == t.traits.c.id)
    has = mapping(tx.connection, mine.where(links.c.resource_provider_id == provider_id))
    added = [trait_id for name, trait_id in wanted.items() if name not in has]
    gone = [
        trait_id
        for name, trait_id in has.items()
        if name not in wanted and name != STATUS_DISABLED and name.startswith(_REPORTED)
    ]
    if added:
        tx.execute(
            sa.insert(links), [{"resource_provider_id": provider_id, "trait_id": trait_id} for trait_id in added]
        )
    if gone:
        tx.execute(sa.delete(links).where(links.c.resource_provider_id == provider_id, links.c.trait_id.in_(gone)))
    return bool(added or gone)


def _known(tx: Transaction, table: sa.Table, names: Sequence[str]) -> dict[str, int]:
    """Return the ids of names, creating custom ones. Raises: InvalidRequest for others that are missing."""
    statement = sa.select(table.c.name, table.c.id).where(table.c.name.in_(list(names)))
    found: dict[str, int] = mapping(tx.connection, statement)
    missing = [name for name in dict.fromkeys(names) if name not in found]
    unknown = [name for name in missing if _CUSTOM.fullmatch(name) is None]
    if unknown:
        raise InvalidRequest(f"Unknown in {table.name.replace('_', ' ')}: {', '.join(unknown)}.")
    if missing:
        tx.execute(sa.insert(table), [{"name": name, "created_at": tx.now} for name in missing])
        found = mapping(tx.connection, statement)
    return found
