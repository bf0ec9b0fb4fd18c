# SPDX-License-Identifier: Apache-2.0
"""Inventories and the allocations against them, changed together: never a moment with one and without the other."""

from collections.abc import Sequence
from dataclasses import dataclass

from kilonova.db import allocations, inventories, providers, resource_classes
from kilonova.db.allocations import ConsumerRequest
from kilonova.db.transaction import Transaction
from kilonova.errors import ConcurrentUpdate, NotFound
from kilonova.model.provider import Inventory, Provider


@dataclass(frozen=True, slots=True)
class ProviderShape:
    """The inventories that a provider shall have, and the generation at which the caller saw it."""

    uuid: str
    generation: int
    inventories: tuple[Inventory, ...]


def reshape(tx: Transaction, shapes: Sequence[ProviderShape], consumers: Sequence[ConsumerRequest]) -> None:
    """Set inventories and allocations at once.

    What shall be there is written first, then the allocations, and only then the inventories that go, so that
    allocations can move from one to the other. Each of these three steps raises the generations it concerns, as
    clients of Placement count on. Raises: NotFound, InvalidRequest, Conflict, ConcurrentUpdate.
    """
    known = providers.by_uuid(tx.connection, [shape.uuid for shape in shapes])
    reshaped: list[tuple[Provider, ProviderShape]] = []
    for shape in shapes:
        provider = known.get(shape.uuid)
        if provider is None:
            raise NotFound(f"Resource provider {shape.uuid} in inventories not found.", provider=shape.uuid)
        if provider.generation != shape.generation:
            raise ConcurrentUpdate(
                f"resource provider generation conflict for provider {shape.uuid}: actual: {provider.generation}, "
                f"given: {shape.generation}"
            )
        reshaped.append((provider, shape))
    class_ids = resource_classes.ids(
        tx.connection, {inventory.resource_class for shape in shapes for inventory in shape.inventories}
    )
    for provider, shape in sorted(reshaped, key=lambda pair: pair[0].id):
        providers.advance(tx, provider, 2 if shape.inventories else 1)
        inventories.store(tx, provider.id, shape.inventories)
    written = allocations.write(tx, consumers)
    for provider, shape in reshaped:
        inventories.remove_others(
            tx, provider, {class_ids[inventory.resource_class] for inventory in shape.inventories}
        )
    providers.touch(tx, written.named)
    providers.log_usage(tx, written.changed)
    for provider, _ in reshaped:
        providers.log_provider(tx, provider.id)
