# SPDX-License-Identifier: Apache-2.0
"""Batched edits of existing providers: read all states, apply the edits in memory, write the differences once.

::

    queued edits ──▶ read all providers ──▶ edit after edit: state → state ──▶ write the differences once

An edit is a function of the state of one provider and sees the result of earlier edits. An edit that raises leaves its
state unchanged, so a refused request does not affect other requests. The number of statements does not grow with the
number of edits. No other transaction writes at the same time, see :mod:`kilonova.db.database`.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import field, replace
from typing import Any

import sqlalchemy as sa

from kilonova.db import provider_states
from kilonova.db.core import tables as t
from kilonova.db.core.prepared import Prepared
from kilonova.db.core.statements import ManyRows, insert_many, mapping
from kilonova.db.core.transaction import BatchedWrite, Transaction, batched, only
from kilonova.db.provider_states import INVENTORY_COLUMNS, ProviderState, Vocabulary, inventory_values, name_taken
from kilonova.errors import ConcurrentUpdate, Conflict, KilonovaError, NotFound
from kilonova.model.vocabulary import Word
from kilonova.records import dataclass

#: Placeholder id of an aggregate that is not stored yet.
NEW = -1

#: Function from the present to the new state of a provider. It may be called more than once for an edit.
Change = Callable[[ProviderState, Vocabulary], ProviderState]


@dataclass(frozen=True, slots=True)
class ProviderEdit:
    """A request to change one provider.

    ``classes``, ``traits``, ``aggregates``: names that ``change`` looks up. ``name``: the new name of the provider, if
    it changes.
    """

    uuid: str
    change: Change
    classes: Collection[str] = ()
    traits: Collection[str] = ()
    aggregates: Collection[str] = ()
    name: str | None = None


@dataclass(frozen=True, slots=True)
class Edited:
    """The result of an edit. ``traits``: the existing traits that the edit named, oldest first."""

    state: ProviderState
    traits: Sequence[Word] = field(default=())

    @property
    def generation(self) -> int:
        return self.state.provider.generation


def advanced(state: ProviderState, steps: int = 1) -> ProviderState:
    """Return the state with its generation incremented by ``steps``."""
    provider = state.provider
    return replace(state, provider=replace(provider, generation=provider.generation + steps))


def edit(tx: Transaction, edit: ProviderEdit) -> Edited:
    """Apply one edit. Raises: NotFound if there is no such provider; the exceptions of the edit."""
    return only(_edit_all(tx, [edit]))


def renamed(uuid: str, name: str) -> ProviderEdit:
    """Return the edit that renames a provider. The edit raises Conflict if another provider has the name."""

    def change(state: ProviderState, _words: Vocabulary) -> ProviderState:
        return replace(state, provider=replace(state.provider, name=name))

    return ProviderEdit(uuid, change, name=name)


def unless_changed(seen: int, change: Change) -> Change:
    """Return ``change`` guarded by the generation ``seen``: it raises ConcurrentUpdate at any other generation."""

    def guarded(state: ProviderState, words: Vocabulary) -> ProviderState:
        if state.provider.generation != seen:
            raise ConcurrentUpdate("The resource provider was changed by another request. Read it again and retry.")
        return change(state, words)

    return guarded


def store(tx: Transaction, changes: Sequence[tuple[ProviderState, ProviderState]]) -> None:
    """Write the differences between (old, new) states, and log the new states for the mirrors."""
    rows = [
        {
            "id": old.provider.id,
            "seen": old.provider.generation,
            "generation": new.provider.generation,
            "name": new.provider.name,
        }
        for old, new in changes
        if old.provider is not new.provider
    ]
    if _CHANGE_PROVIDERS.run(tx, rows, now=tx.now) != len(rows):
        raise ConcurrentUpdate("The resource provider was changed by another request. Read it again and retry.")
    _write_inventories(tx, changes)
    aggregate_ids = _aggregate_ids(tx, changes)
    if aggregate_ids:
        changes = [(old, _with_ids(new, aggregate_ids)) for old, new in changes]
    _write_links(tx, _ADD_TRAITS, _DROP_TRAITS, [(old.provider.id, old.traits, new.traits) for old, new in changes])
    _write_links(
        tx,
        _ADD_AGGREGATES,
        _DROP_AGGREGATES,
        [(old.provider.id, old.aggregates, new.aggregates) for old, new in changes],
    )
    for _, new in changes:
        provider_states.log(tx, new)


def _edit_all(tx: Transaction, edits: Sequence[ProviderEdit]) -> Sequence[Edited | Exception]:
    before, words = provider_states.with_words(
        tx.connection,
        {edit.uuid for edit in edits},
        classes={name for edit in edits for name in edit.classes},
        traits={name for edit in edits for name in edit.traits},
        aggregates={name for edit in edits for name in edit.aggregates},
    )
    holders = _holders(tx, edits)
    after = dict(before)
    outcomes: list[Edited | Exception] = []
    for one in edits:
        state = after.get(one.uuid)
        try:
            if state is None:
                raise NotFound(f"No resource provider with uuid {one.uuid} found")
            if one.name is not None and holders.get(one.name, one.uuid) != one.uuid:
                raise name_taken(one.name)
            after[one.uuid] = changed = one.change(state, words)
        except KilonovaError as error:
            outcomes.append(error)
        else:
            if one.name is not None:
                holders.pop(state.provider.name, None)
                holders[one.name] = one.uuid
            named = (words.traits[name] for name in one.traits if name in words.traits)
            outcomes.append(Edited(changed, sorted(set(named), key=lambda word: words.trait_ids[word.name])))
    store(tx, [(old, after[uuid]) for uuid, old in before.items() if after[uuid] is not old])
    return outcomes


#: Batched form of :func:`edit`, for Database.submit_batched.
edit_batched: BatchedWrite[ProviderEdit, Edited] = batched(_edit_all)


# --- parts ----------------------------------------------------------------------------------------------------------


def _holders(tx: Transaction, edits: Sequence[ProviderEdit]) -> dict[str, str]:
    """Return name → uuid of the providers that already have the names which these edits assign."""
    wanted = {edit.name for edit in edits if edit.name is not None}
    return mapping(tx.connection, _HOLDERS, names=list(wanted)) if wanted else {}


def _write_inventories(tx: Transaction, changes: Sequence[tuple[ProviderState, ProviderState]]) -> None:
    added: list[dict[str, Any]] = []
    changed: list[dict[str, Any]] = []
    gone: dict[int, set[int]] = {}
    for old, new in changes:
        if old.inventories is new.inventories:
            continue
        for name, held in new.inventories.items():
            before = old.inventories.get(name)
            if before is None:
                key = {"resource_provider_id": new.provider.id, "resource_class_id": held.class_id}
                added.append({**key, **inventory_values(held.inventory), "used": 0, "created_at": tx.now})
            elif before is not held:
                key = {"of_provider": new.provider.id, "of_class": held.class_id}
                changed.append({**key, **inventory_values(held.inventory), "now": tx.now})
        gone[new.provider.id] = {held.class_id for name, held in old.inventories.items() if name not in new.inventories}
    if changed:
        _CHANGE_INVENTORIES.run_each(tx.connection, changed)
    if added:
        _ADD_INVENTORIES.run_each(tx.connection, added)
    for class_ids, provider_ids in _alike(gone):
        removed = _DROP_INVENTORIES.run(tx.connection, providers=provider_ids, classes=class_ids)
        if removed != len(class_ids) * len(provider_ids):
            raise Conflict("An inventory to be removed is in use.")


def _aggregate_ids(tx: Transaction, changes: Iterable[tuple[ProviderState, ProviderState]]) -> dict[str, int]:
    """Return uuid → id of the aggregates that providers join and that no edit looked up, creating missing ones."""
    wanted = {uuid for _, new in changes for uuid, row_id in new.aggregates.items() if row_id == NEW}
    if not wanted:
        return {}
    found: dict[str, int] = mapping(tx.connection, _AGGREGATES, uuids=list(wanted))
    missing = wanted - found.keys()
    if missing:
        _NEW_AGGREGATES.run(tx, [{"uuid": uuid} for uuid in sorted(missing)])
        found |= mapping(tx.connection, _AGGREGATES, uuids=list(missing))
    return found


def _with_ids(state: ProviderState, ids: Mapping[str, int]) -> ProviderState:
    return replace(state, aggregates={uuid: ids.get(uuid, row_id) for uuid, row_id in state.aggregates.items()})


def _write_links(
    tx: Transaction,
    add: ManyRows,
    drop: Prepared,
    sets: Iterable[tuple[int, Mapping[str, int], Mapping[str, int]]],
) -> None:
    added: list[dict[str, Any]] = []
    gone: dict[int, set[int]] = {}
    for provider_id, old, new in sets:
        if old is not new:
            added += ({"provider": provider_id, "linked": new[name]} for name in new if name not in old)
            gone[provider_id] = {old[name] for name in old if name not in new}
    add.run(tx, added)
    for linked, provider_ids in _alike(gone):
        drop.run(tx.connection, providers=provider_ids, linked=linked)


def _alike(sets: Mapping[int, Collection[int]]) -> Iterable[tuple[list[int], list[int]]]:
    """Group providers that lose the same links, so that one statement deletes the links of a group."""
    found: dict[tuple[int, ...], list[int]] = defaultdict(list)
    for provider_id, members in sets.items():
        if members:
            found[tuple(sorted(members))].append(provider_id)
    return [(list(members), provider_ids) for members, provider_ids in found.items()]


# --- statements -----------------------------------------------------------------------------------------------------

_NOW = sa.bindparam("now", type_=t.Time)
_PROVIDER, _INVENTORY = t.resource_providers.c, t.inventories.c
_NAMES: sa.BindParameter[Any] = sa.bindparam("names", expanding=True)
_GONE_FROM: sa.BindParameter[Any] = sa.bindparam("providers", expanding=True)
_HOLDERS = Prepared(sa.select(_PROVIDER.name, _PROVIDER.uuid).where(_PROVIDER.name.in_(_NAMES)))
_AGGREGATES = Prepared(
    sa.select(t.placement_aggregates.c.uuid, t.placement_aggregates.c.id).where(
        t.placement_aggregates.c.uuid.in_(sa.bindparam("uuids", expanding=True))
    )
)
_NEW_AGGREGATES = insert_many(t.placement_aggregates, {"uuid": "uuid"})
_CHANGE_PROVIDERS = ManyRows(
    {"id": sa.BigInteger(), "seen": sa.BigInteger(), "generation": sa.BigInteger(), "name": _PROVIDER.name.type},
    lambda given: (
        sa.update(t.resource_providers)
        .where(_PROVIDER.id == given["id"], _PROVIDER.generation == given["seen"])
        .values(generation=given["generation"], name=given["name"], updated_at=_NOW)
    ),
)
# Each row is a set of parameters, not part of one JSON text, because SQLite does not parse every ratio in JSON exactly.
_CHANGE_INVENTORIES = Prepared(
    sa.update(t.inventories)
    .where(
        _INVENTORY.resource_provider_id == sa.bindparam("of_provider"),
        _INVENTORY.resource_class_id == sa.bindparam("of_class"),
    )
    .values(updated_at=sa.bindparam("now", type_=t.Time), **{name: sa.bindparam(name) for name in INVENTORY_COLUMNS})
)
_ADD_INVENTORIES = Prepared(
    sa.insert(t.inventories).values(
        {
            name: sa.bindparam(name, type_=_INVENTORY[name].type)
            for name in ("resource_provider_id", "resource_class_id", *INVENTORY_COLUMNS, "used", "created_at")
        }
    )
)
_DROP_INVENTORIES = Prepared(
    sa.delete(t.inventories).where(
        _INVENTORY.resource_provider_id.in_(_GONE_FROM),
        _INVENTORY.resource_class_id.in_(sa.bindparam("classes", expanding=True)),
        _INVENTORY.used == 0,
    )
)


def _links(table: sa.Table, column: str) -> tuple[ManyRows, Prepared]:
    """Return the statements that insert and delete links of providers in ``table``."""
    drop = Prepared(
        sa.delete(table).where(
            table.c.resource_provider_id.in_(_GONE_FROM), table.c[column].in_(sa.bindparam("linked", expanding=True))
        )
    )
    return insert_many(table, {"resource_provider_id": "provider", column: "linked"}), drop


_ADD_TRAITS, _DROP_TRAITS = _links(t.resource_provider_traits, "trait_id")
_ADD_AGGREGATES, _DROP_AGGREGATES = _links(t.resource_provider_aggregates, "aggregate_id")
