# SPDX-License-Identifier: Apache-2.0
"""What an agent reports of its hypervisor: the inventories and traits of a root provider."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import sqlalchemy as sa

from kilonova.db import provider_edits, provider_states, providers
from kilonova.db.core import tables as t
from kilonova.db.core.statements import mapping
from kilonova.db.core.transaction import Transaction
from kilonova.db.provider_states import HeldInventory, ProviderState
from kilonova.db.providers import NewProvider
from kilonova.errors import InvalidRequest
from kilonova.model.provider import Inventory

_MAX_INTEGER = 2**31 - 1
#: As the Placement API takes them.
_CUSTOM = re.compile(r"CUSTOM_[A-Z0-9_]{1,248}")
#: Set by the API when a compute service is disabled; an agent's report leaves it alone.
STATUS_DISABLED = "COMPUTE_STATUS_DISABLED"
#: Beginnings of the traits that agents report. All others are the operators', ``MISC_SHARES_VIA_AGGREGATE`` for one.
_REPORTED = ("COMPUTE_", "HW_", "OWNER_")
#: So many custom names agents may make, all together: more than any cloud has, and nothing with which one host could
#: fill the database or the mirrors. Operators may make more over the Placement API.
MOST_CUSTOM = 2000
_SHOWN, _LONGEST_SHOWN = 5, 80


@dataclass(frozen=True, slots=True)
class ReportedProvider:
    """What the root provider of a hypervisor is to be. ``uuid``, ``name``: of the hypervisor."""

    uuid: str
    name: str
    inventories: Sequence[Inventory]
    traits: Sequence[str]


def ensure_all(tx: Transaction, said: Sequence[ReportedProvider]) -> frozenset[str]:
    """Bring the root providers of hypervisors to what their agents report; repeating it changes nothing.

    Keeps what is used, ``COMPUTE_STATUS_DISABLED`` and traits of kinds that no agent reports. A class that is still
    allocated stays although the agent no longer reports it. Returns the uuids of those that are new.

    Raises: InvalidRequest for a resource class or trait that is neither known nor ``CUSTOM_``, and for impossible
    numbers.
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
    """Hold what an agent says to what the Placement API takes. Raises: InvalidRequest."""
    numbers = inventory.total, inventory.reserved, inventory.min_unit, inventory.max_unit, inventory.step_size
    ratio = inventory.allocation_ratio
    if not all(0 <= number <= _MAX_INTEGER for number in numbers) or not 0 < ratio < float("inf"):
        raise InvalidRequest(f"There can be no such inventory: {inventory}.")


def _inventories(
    state: ProviderState, said: Sequence[Inventory], class_ids: Mapping[str, int]
) -> Mapping[str, HeldInventory]:
    """Return the inventories of a provider as they are to be; the same ones where nothing differs."""
    has = state.inventories
    wanted = {each.resource_class: each for each in said}
    after = {name: held for name, held in has.items() if name in wanted or held.used}
    for name, inventory in wanted.items():
        held = has.get(name)
        if held is None or held.inventory != inventory:
            after[name] = HeldInventory(inventory, class_ids[name], 0 if held is None else held.used)
    return has if after == has else after


def _traits(state: ProviderState, said: Sequence[str], trait_ids: Mapping[str, int]) -> Mapping[str, int]:
    """Return the traits of a provider as they are to be; the same ones where nothing differs."""
    has = state.traits
    kept = {
        name: row_id
        for name, row_id in has.items()
        if name in said or name == STATUS_DISABLED or not name.startswith(_REPORTED)
    }
    after = kept | {name: trait_ids[name] for name in said if name != STATUS_DISABLED}
    return has if after == has else after


def _known(tx: Transaction, table: sa.Table, names: Sequence[str]) -> dict[str, int]:
    """Return the ids of names, creating custom ones. Raises: InvalidRequest for others that are missing."""
    statement = sa.select(table.c.name, table.c.id).where(table.c.name.in_(list(names)))
    found: dict[str, int] = mapping(tx.connection, statement)
    missing = [name for name in dict.fromkeys(names) if name not in found]
    unknown = [name for name in missing if _CUSTOM.fullmatch(name) is None]
    if unknown:
        raise InvalidRequest(f"Unknown in {table.name.replace('_', ' ')}: {_shown(unknown)}.")
    if missing:
        _require_room(tx, table, len(missing))
        tx.execute(sa.insert(table), [{"name": name, "created_at": tx.now} for name in missing])
        found = mapping(tx.connection, statement)
    return found


def _require_room(tx: Transaction, table: sa.Table, more: int) -> None:
    """Hold custom names to a number that no honest cloud has. Raises: InvalidRequest."""
    custom = sa.select(sa.func.count()).select_from(table).where(table.c.name.like("CUSTOM\\_%", escape="\\"))
    if tx.execute(custom).scalar_one() + more > MOST_CUSTOM:
        raise InvalidRequest(
            f"Agents may make {MOST_CUSTOM} custom {table.name.replace('_', ' ')} at most. Make what is needed over "
            "the Placement API."
        )


def _shown(names: Sequence[str]) -> str:
    """Name some of what an agent wrote, and not all of it in any length."""
    some = ", ".join(name[:_LONGEST_SHOWN] for name in names[:_SHOWN])
    return some + (f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")
