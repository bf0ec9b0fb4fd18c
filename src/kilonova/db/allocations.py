# SPDX-License-Identifier: Apache-2.0
"""Who uses what: consumers and their allocations, written as a whole, consumer by consumer.

``inventories.used`` is the sum of the allocations of its row, kept by UPDATEs that add a difference. The one that adds
more also carries the guard ``used + n <= capacity``, so no interleaving of writers can exceed a capacity.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from kilonova.db import providers
from kilonova.db import tables as t
from kilonova.db.database import Transaction
from kilonova.db.resource_classes import ids as class_ids_of
from kilonova.db.statements import insert_missing, mapping
from kilonova.errors import ConcurrentUpdate, Conflict, InvalidRequest
from kilonova.model.provider import Provider

#: (provider id, class id)
_Cell = tuple[int, int]


@dataclass(frozen=True, slots=True)
class ConsumerAllocations:
    """What a consumer uses: provider uuid → resource class → amount."""

    consumer_uuid: str
    project_id: str
    user_id: str
    consumer_type: str | None
    generation: int
    allocations: Mapping[str, Mapping[str, int]]
    provider_generations: Mapping[str, int] = field(default_factory=dict)
    changed_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class ConsumerRequest:
    """The allocations that a consumer shall have from now on; none at all removes it.

    With ``guarded`` its generation must be ``generation`` (None: it must not exist).
    ``consumer_type`` None leaves the type alone.
    """

    consumer_uuid: str
    project_id: str
    user_id: str
    allocations: Mapping[str, Mapping[str, int]]
    consumer_type: str | None = None
    guarded: bool = False
    generation: int | None = None


def for_consumer(connection: Connection, consumer_uuid: str) -> ConsumerAllocations | None:
    """Return what a consumer uses, or None if it uses nothing."""
    table = t.allocations
    rows = connection.execute(
        sa.select(
            t.resource_providers.c.uuid,
            t.resource_providers.c.generation,
            t.resource_classes.c.name,
            table.c.used,
            table.c.created_at,
            t.consumers.c.project_id,
            t.consumers.c.user_id,
            t.consumers.c.consumer_type,
            t.consumers.c.generation,
        )
        .select_from(table)
        .join(t.resource_providers, t.resource_providers.c.id == table.c.resource_provider_id)
        .join(t.resource_classes, t.resource_classes.c.id == table.c.resource_class_id)
        .join(t.consumers, t.consumers.c.uuid == table.c.consumer_uuid)
        .where(table.c.consumer_uuid == consumer_uuid)
        .order_by(table.c.resource_provider_id, table.c.resource_class_id)
    ).all()
    if not rows:
        return None
    allocations: dict[str, dict[str, int]] = {}
    generations: dict[str, int] = {}
    for uuid, generation, name, used, *_ in rows:
        allocations.setdefault(uuid, {})[name] = used
        generations[uuid] = generation
    *_, project_id, user_id, consumer_type, consumer_generation = rows[0]
    return ConsumerAllocations(
        consumer_uuid,
        project_id,
        user_id,
        consumer_type,
        consumer_generation,
        allocations,
        generations,
        max(row[4] for row in rows),
    )


def for_provider(
    connection: Connection, provider_id: int
) -> tuple[dict[str, tuple[int, dict[str, int]]], datetime | None]:
    """Return consumer uuid → (its generation, resource class → amount), and when the newest was written."""
    table = t.allocations
    rows = connection.execute(
        sa.select(
            table.c.consumer_uuid, t.consumers.c.generation, t.resource_classes.c.name, table.c.used, table.c.created_at
        )
        .select_from(table)
        .join(t.resource_classes, t.resource_classes.c.id == table.c.resource_class_id)
        .join(t.consumers, t.consumers.c.uuid == table.c.consumer_uuid)
        .where(table.c.resource_provider_id == provider_id)
        .order_by(table.c.consumer_uuid, table.c.resource_class_id)
    )
    found: dict[str, tuple[int, dict[str, int]]] = {}
    newest: datetime | None = None
    for consumer_uuid, generation, name, used, created_at in rows:
        found.setdefault(consumer_uuid, (generation, {}))[1][name] = used
        newest = created_at if newest is None else max(newest, created_at)
    return found, newest


def delete_for_consumer(tx: Transaction, consumer_uuid: str) -> bool:
    """Free everything a consumer uses and forget it; absent is success. Returns whether it used anything.

    Generations stay: what is freed cannot invalidate what a client knew of a provider.
    """
    old = _present(tx, [consumer_uuid])
    _add_use(tx, {cell: -used for cell, used in _by_cell(old).items()}, {})
    tx.execute(sa.delete(t.allocations).where(t.allocations.c.consumer_uuid == consumer_uuid))
    tx.execute(sa.delete(t.consumers).where(t.consumers.c.uuid == consumer_uuid))
    touched = {use.provider_id for use in old}
    if touched:
        providers.log_usage(tx, touched)
    return bool(old)


def replace(tx: Transaction, requests: Sequence[ConsumerRequest]) -> None:
    """Give every consumer of ``requests`` exactly the allocations asked for, all or none.

    Raises: ConcurrentUpdate for a consumer's generation; InvalidRequest for an unknown provider or resource class;
    Conflict when an inventory is missing, its units do not allow the amount, or its capacity would be exceeded.
    A provider that is over capacity already accepts any request that does not make it worse.
    """
    written = write(tx, requests)
    providers.touch(tx, written.named)
    providers.log_usage(tx, written.changed)


@dataclass(frozen=True, slots=True)
class Written:
    """Provider ids: those that the requests name or empty, whose generations rise, and all whose use may change."""

    named: frozenset[int]
    changed: frozenset[int]


def write(tx: Transaction, requests: Sequence[ConsumerRequest]) -> Written:
    """Do what :func:`replace` does but for raising generations and logging."""
    consumers = _consumers(tx, requests)
    named = {uuid for request in requests for uuid in request.allocations}
    known = providers.by_uuid(tx.connection, named) if named else {}
    for uuid in sorted(named - known.keys()):
        raise InvalidRequest(f"Allocation for resource provider '{uuid}' that does not exist.")
    names = {name for request in requests for resources in request.allocations.values() for name in resources}
    class_ids = class_ids_of(tx.connection, names) if names else {}
    old = _present(tx, [request.consumer_uuid for request in requests])
    rows: list[dict[str, Any]] = []
    for request in requests:
        for uuid, resources in request.allocations.items():
            for name, amount in resources.items():
                keys = {"resource_provider_id": known[uuid].id, "resource_class_id": class_ids[name]}
                rows.append({"consumer_uuid": request.consumer_uuid, "used": amount, "created_at": tx.now, **keys})
    change = {cell: -used for cell, used in _by_cell(old).items()}
    for row in rows:
        cell = row["resource_provider_id"], row["resource_class_id"]
        change[cell] = change.get(cell, 0) + row["used"]
    labels = {
        (known[uuid].id, class_ids[name]): (known[uuid], name)
        for request in requests
        for uuid, resources in request.allocations.items()
        for name in resources
    }
    _check_units(tx, rows, labels)
    _write_consumers(tx, requests, consumers)
    _add_use(tx, change, labels)
    uuids = [request.consumer_uuid for request in requests]
    tx.execute(sa.delete(t.allocations).where(t.allocations.c.consumer_uuid.in_(uuids)))
    if rows:
        tx.execute(sa.insert(t.allocations), rows)
    empty = [request.consumer_uuid for request in requests if not request.allocations]
    if empty:
        tx.execute(sa.delete(t.consumers).where(t.consumers.c.uuid.in_(empty)))
    emptied = {use.provider_id for use in old if use.consumer_uuid in empty}
    return Written(
        frozenset(emptied.union(provider.id for provider in known.values())),
        frozenset(provider_id for provider_id, _ in change),
    )


# --- parts ----------------------------------------------------------------------------------------------------------


class _Use(NamedTuple):
    consumer_uuid: str
    provider_id: int
    class_id: int
    used: int


def _present(tx: Transaction, consumer_uuids: Collection[str]) -> list[_Use]:
    """Return every allocation of these consumers."""
    table = t.allocations
    columns = (table.c.consumer_uuid, table.c.resource_provider_id, table.c.resource_class_id, table.c.used)
    rows = tx.connection.execute(sa.select(*columns).where(table.c.consumer_uuid.in_(list(consumer_uuids))))
    return [_Use(*row) for row in rows]


def _by_cell(uses: Sequence[_Use]) -> dict[_Cell, int]:
    cells: dict[_Cell, int] = {}
    for use in uses:
        cell = use.provider_id, use.class_id
        cells[cell] = cells.get(cell, 0) + use.used
    return cells


def _consumers(tx: Transaction, requests: Sequence[ConsumerRequest]) -> dict[str, int]:
    """Return the generation of every consumer that exists, after checking those that the requests expect."""
    table = t.consumers
    uuids = [request.consumer_uuid for request in requests]
    statement = sa.select(table.c.uuid, table.c.generation).where(table.c.uuid.in_(uuids))
    found: dict[str, int] = mapping(tx.connection, statement)
    for request in requests:
        if request.guarded and found.get(request.consumer_uuid) != request.generation:
            raise _consumer_conflict(found.get(request.consumer_uuid), request.generation)
    return found


def _consumer_conflict(present: int | None, given: int | None) -> ConcurrentUpdate:
    expected, got = ("null" if value is None else value for value in (present, given))
    return ConcurrentUpdate(f"consumer generation conflict - expected {expected} but got {got}")


def _write_consumers(tx: Transaction, requests: Sequence[ConsumerRequest], present: Mapping[str, int]) -> None:
    table = t.consumers
    for request in sorted(requests, key=lambda request: request.consumer_uuid):
        generation = present.get(request.consumer_uuid)
        values = {"project_id": request.project_id, "user_id": request.user_id}
        if request.consumer_type is not None:
            values["consumer_type"] = request.consumer_type
        if generation is None:
            if not request.allocations:
                continue
            row = {**values, "uuid": request.consumer_uuid, "generation": 1, "created_at": tx.now}
            done = insert_missing(tx, table, row)
        else:
            guard = (table.c.uuid == request.consumer_uuid) & (table.c.generation == generation)
            changed = sa.update(table).where(guard).values(**values, generation=generation + 1, updated_at=tx.now)
            done = tx.execute(changed).rowcount == 1
        if not done:
            raise ConcurrentUpdate(
                "Inventory and/or allocations changed while attempting to allocate: another request wrote the "
                f"allocations of consumer {request.consumer_uuid}."
            )


def _check_units(
    tx: Transaction, rows: Sequence[Mapping[str, Any]], labels: Mapping[_Cell, tuple[Provider, str]]
) -> None:
    if not rows:
        return
    table = t.inventories
    units = {
        (provider_id, class_id): limits
        for provider_id, class_id, *limits in tx.connection.execute(
            sa.select(
                table.c.resource_provider_id,
                table.c.resource_class_id,
                table.c.min_unit,
                table.c.max_unit,
                table.c.step_size,
            ).where(
                table.c.resource_provider_id.in_({provider_id for provider_id, _ in labels}),
                table.c.resource_class_id.in_({class_id for _, class_id in labels}),
            )
        )
    }
    for row in rows:
        cell = row["resource_provider_id"], row["resource_class_id"]
        provider, name = labels[cell]
        if cell not in units:
            raise Conflict(
                f"Unable to allocate inventory: Inventory for '{name}' on resource provider '{provider.uuid}' invalid."
            )
        min_unit, max_unit, step_size = units[cell]
        if not min_unit <= row["used"] <= max_unit or row["used"] % step_size:
            raise Conflict(
                f"Unable to allocate inventory: {row['used']} of '{name}' on resource provider '{provider.uuid}' "
                f"would violate inventory constraints: min_unit {min_unit}, max_unit {max_unit}, step_size {step_size}."
            )


def _add_use(tx: Transaction, change: Mapping[_Cell, int], labels: Mapping[_Cell, tuple[Provider, str]]) -> None:
    """Add to what is used, in one order for all writers. Raises: Conflict when a capacity would be exceeded."""
    table = t.inventories
    for cell, amount in sorted(change.items()):
        if amount == 0:
            continue
        row = (table.c.resource_provider_id == cell[0]) & (table.c.resource_class_id == cell[1])
        if amount > 0:
            row &= table.c.used + amount <= table.c.capacity
        if tx.execute(sa.update(table).where(row).values(used=table.c.used + amount)).rowcount == 1 or amount < 0:
            continue
        provider, name = labels[cell]
        raise Conflict(
            f"Unable to allocate inventory: Unable to create allocation for '{name}' on resource provider "
            f"'{provider.uuid}'. The requested amount would exceed the capacity."
        )
