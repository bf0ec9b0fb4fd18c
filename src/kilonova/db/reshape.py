# SPDX-License-Identifier: Apache-2.0
"""Reshape of providers: inventories and allocations are changed in one transaction."""

from collections.abc import Sequence

from kilonova.db import allocations, inventories, provider_edits, provider_states, providers, resource_classes
from kilonova.db.allocations import ConsumerRequest
from kilonova.db.core.transaction import Transaction
from kilonova.db.provider_edits import advanced
from kilonova.db.provider_states import ProviderState, Vocabulary
from kilonova.errors import ConcurrentUpdate, NotFound
from kilonova.model.provider import Inventory
from kilonova.records import dataclass


@dataclass(frozen=True, slots=True)
class ProviderShape:
    """The new inventories of a provider, and its generation that the client has read."""

    uuid: str
    generation: int
    inventories: tuple[Inventory, ...]


def reshape(tx: Transaction, shapes: Sequence[ProviderShape], consumers: Sequence[ConsumerRequest]) -> None:
    """Replace the inventories of providers and the allocations of consumers atomically.

    New and changed inventories are written first, then allocations; obsolete inventories are removed last, so that
    allocations can move between inventories. Each of these steps increments the generations of the providers that it
    changes, as in Placement.
    Raises: NotFound, InvalidRequest, Conflict, ConcurrentUpdate.
    """
    uuids = [shape.uuid for shape in shapes]
    known = provider_states.by_uuid(tx.connection, uuids)
    for shape in shapes:
        _check_seen(shape, known.get(shape.uuid))
    names = {inventory.resource_class for shape in shapes for inventory in shape.inventories}
    words = Vocabulary(resource_classes.ids(tx.connection, names))
    wanted = {shape.uuid: inventories.stored(known[shape.uuid], words, shape.inventories) for shape in shapes}
    with_both = [
        inventories.with_inventories(advanced(state, 2 if wanted[uuid] else 1), {**state.inventories, **wanted[uuid]})
        for uuid, state in known.items()
    ]
    provider_edits.store(tx, list(zip(known.values(), with_both, strict=True)))
    written = allocations.write(tx, consumers)
    providers.touch(tx, written.named)
    providers.log_usage(tx, written.changed)
    known = provider_states.by_uuid(tx.connection, uuids)
    reshaped = [inventories.without_others(state, wanted[uuid]) for uuid, state in known.items()]
    provider_edits.store(tx, list(zip(known.values(), reshaped, strict=True)))


def _check_seen(shape: ProviderShape, state: ProviderState | None) -> None:
    if state is None:
        raise NotFound(f"Resource provider {shape.uuid} in inventories not found.", provider=shape.uuid)
    if state.provider.generation != shape.generation:
        raise ConcurrentUpdate(
            f"resource provider generation conflict for provider {shape.uuid}: actual: {state.provider.generation}, "
            f"given: {shape.generation}"
        )
