# SPDX-License-Identifier: Apache-2.0
"""Reports of agents about their hypervisors: inventories and traits of root providers."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

import sqlalchemy as sa

from kilonova.db import provider_edits, provider_states, providers
from kilonova.db.core import tables as t
from kilonova.db.core.statements import mapping
from kilonova.db.core.transaction import Transaction
from kilonova.db.provider_states import HeldInventory, ProviderState
from kilonova.db.providers import NewProvider
from kilonova.errors import InvalidRequest
from kilonova.model.provider import Inventory
from kilonova.records import dataclass

_MAX_INTEGER = 2**31 - 1
#: Custom names that the Placement API accepts.
_CUSTOM = re.compile(r"CUSTOM_[A-Z0-9_]{1,248}")
#: Trait that the API adds when a compute service is disabled; an agent's report neither adds nor removes it.
STATUS_DISABLED = "COMPUTE_STATUS_DISABLED"
#: Prefixes of traits that agents report. Operators set all other traits, for example ``MISC_SHARES_VIA_AGGREGATE``.
_REPORTED = ("COMPUTE_", "HW_", "OWNER_")
#: Number of custom resource classes, and of custom traits, up to which agents may create new ones, so that one host
#: cannot fill the database or the mirrors. Operators can create more with the Placement API.
MOST_CUSTOM = 2000
_SHOWN, _LONGEST_SHOWN = 5, 80


@dataclass(frozen=True, slots=True)
class ReportedProvider:
    """The reported root provider of a hypervisor. ``uuid``, ``name``: of the hypervisor."""

    uuid: str
    name: str
    inventories: Sequence[Inventory]
    traits: Sequence[str]


def ensure_all(tx: Transaction, said: Sequence[ReportedProvider]) -> frozenset[str]:
    """Create or update root providers from the reports of agents; return the uuids of the new providers.

    Idempotent. Keeps used amounts, ``COMPUTE_STATUS_DISABLED``, and all traits with prefixes that agents do not report.
    An inventory that is no longer reported stays while it has allocations.
    Raises: InvalidRequest for a resource class or trait that is neither known nor ``CUSTOM_``, and for invalid numbers.
    """
    said = list({each.uuid: each for each in said}.values())
    for inventory in (inventory for each in said for inventory in each.inventories):
        _require_possible(inventory)
    class_ids = _known(tx, t.resource_classes, [each.resource_class for one in said for each in one.inventories])
    trait_ids = _known(tx, t.traits, [name for one in said for name in one.traits])
    states = provider_states.by_uuid(tx.connection, {each.uuid for each in said})
    new = [NewProvider(each.uuid, each.name) for each in said if each.uuid not in states]
    for provider in providers.create_all(tx, new):
        states[provider.uuid] = ProviderState(provider, {}, {}, {})
    before = dict(states)
    for each in said:
        state = states[each.uuid]
        after = replace(
            state,
            inventories=_inventories(state, each.inventories, class_ids),
            traits=_traits(state, each.traits, trait_ids),
        )
        if after.provider.name != each.name:
            providers.require_free(tx.connection, each.name)
            after = replace(after, provider=replace(after.provider, name=each.name))
        if after != state:
            states[each.uuid] = after
    provider_edits.store(
        tx,
        [(before[uuid], provider_edits.advanced(state)) for uuid, state in states.items() if state is not before[uuid]],
    )
    return frozenset(each.uuid for each in new)


def _require_possible(inventory: Inventory) -> None:
    """Check a reported inventory against the limits of the Placement API. Raises: InvalidRequest."""
    numbers = inventory.total, inventory.reserved, inventory.min_unit, inventory.max_unit, inventory.step_size
    ratio = inventory.allocation_ratio
    if not all(0 <= number <= _MAX_INTEGER for number in numbers) or not 0 < ratio < float("inf"):
        raise InvalidRequest(f"The reported inventory is not valid: {inventory}.")


def _inventories(
    state: ProviderState, said: Sequence[Inventory], class_ids: Mapping[str, int]
) -> Mapping[str, HeldInventory]:
    """Return the inventories of a provider after a report; the same object as before if none of them changes."""
    has = state.inventories
    wanted = {each.resource_class: each for each in said}
    after = {name: held for name, held in has.items() if name in wanted or held.used}
    for name, inventory in wanted.items():
        held = has.get(name)
        if held is None or held.inventory != inventory:
            after[name] = HeldInventory(inventory, class_ids[name], 0 if held is None else held.used)
    return has if after == has else after


def _traits(state: ProviderState, said: Sequence[str], trait_ids: Mapping[str, int]) -> Mapping[str, int]:
    """Return the traits of a provider after a report; the same object as before if none of them changes."""
    has = state.traits
    kept = {
        name: row_id
        for name, row_id in has.items()
        if name in said or name == STATUS_DISABLED or not name.startswith(_REPORTED)
    }
    after = kept | {name: trait_ids[name] for name in said if name != STATUS_DISABLED}
    return has if after == has else after


def _known(tx: Transaction, table: sa.Table, names: Sequence[str]) -> dict[str, int]:
    """Return name → id of the rows of ``table`` with these names; rows of missing custom names are created.

    Raises: InvalidRequest for a missing name that is not custom, or if agents have created too many custom names.
    """
    statement = sa.select(table.c.name, table.c.id).where(table.c.name.in_(list(names)))
    found: dict[str, int] = mapping(tx.connection, statement)
    missing = [name for name in dict.fromkeys(names) if name not in found]
    unknown = [name for name in missing if _CUSTOM.fullmatch(name) is None]
    if unknown:
        raise InvalidRequest(f"Unknown {table.name.replace('_', ' ')}: {_shown(unknown)}.")
    if missing:
        _require_room(tx, table, len(missing))
        tx.execute(sa.insert(table), [{"name": name, "created_at": tx.now} for name in missing])
        found = mapping(tx.connection, statement)
    return found


def _require_room(tx: Transaction, table: sa.Table, more: int) -> None:
    """Check that ``more`` new custom names do not bring ``table`` above ``MOST_CUSTOM`` custom names.

    Raises: InvalidRequest.
    """
    custom = sa.select(sa.func.count()).select_from(table).where(table.c.name.like("CUSTOM\\_%", escape="\\"))
    if tx.execute(custom).scalar_one() + more > MOST_CUSTOM:
        raise InvalidRequest(
            f"Agents may create at most {MOST_CUSTOM} custom {table.name.replace('_', ' ')}. Create more of them with "
            "the Placement API."
        )


def _shown(names: Sequence[str]) -> str:
    """Return the first names of an agent's list, each cut to a maximum length, and the number of the other names."""
    some = ", ".join(name[:_LONGEST_SHOWN] for name in names[:_SHOWN])
    return some + (f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")
