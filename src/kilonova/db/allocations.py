# SPDX-License-Identifier: Apache-2.0
"""Allocations of consumers. A write replaces all allocations of a consumer.

``inventories.used`` is the sum of the allocations of an inventory. ``inventory_use.py`` adds the difference to ``used``
and guards the capacity. Requests that are queued together are written together; the number of statements does not
depend on the number of requests.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import field
from datetime import datetime
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from kilonova.db import consumers, inventory_use, providers
from kilonova.db.consumers import Consumer
from kilonova.db.core import tables as t
from kilonova.db.core.prepared import Prepared
from kilonova.db.core.statements import ManyRows, insert_many
from kilonova.db.core.transaction import BatchedWrite, Transaction, batched
from kilonova.db.inventory_use import InventoryKey
from kilonova.db.resource_classes import ids as class_ids_of
from kilonova.deadline import heeding
from kilonova.errors import ConcurrentUpdate, Conflict, InvalidRequest, NotFound
from kilonova.records import dataclass


@dataclass(frozen=True, slots=True)
class ConsumerAllocations:
    """The allocations of a consumer. ``allocations``: provider uuid → resource class → amount."""

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
    """New allocations of a consumer, which replace all its present ones; an empty mapping deletes the consumer.

    ``guarded``: the request fails unless the consumer's present generation is ``generation`` (None: unless the consumer
    does not exist). ``consumer_type``: None keeps the present type.
    """

    consumer_uuid: str
    project_id: str
    user_id: str
    allocations: Mapping[str, Mapping[str, int]]
    consumer_type: str | None = None
    guarded: bool = False
    generation: int | None = None


def for_consumer(connection: Connection, consumer_uuid: str) -> ConsumerAllocations | None:
    """Return the allocations of a consumer, or None if it has none."""
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
    """Return consumer uuid → (its generation, resource class → amount), and the time of the newest allocation."""
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
    for consumer_uuid, generation, name, used, created_at in heeding(rows):
        found.setdefault(consumer_uuid, (generation, {}))[1][name] = used
        newest = created_at if newest is None else max(newest, created_at)
    return found, newest


def delete_for_consumer(tx: Transaction, consumer_uuid: str) -> bool:
    """Delete a consumer and its allocations; no error if absent. Returns whether it had allocations.

    The generations of the providers stay the same, because no concurrent request becomes invalid if resources are
    freed.
    """
    return _delete_all(tx, [consumer_uuid])[0]


def _delete_all(tx: Transaction, consumer_uuids: Sequence[str]) -> Sequence[bool]:
    using = _free(tx, consumer_uuids)
    consumers.remove(tx, set(consumer_uuids))
    outcomes: list[bool] = []
    for uuid in consumer_uuids:  # if a consumer occurs twice, only its first request returns True
        outcomes.append(uuid in using)
        using.discard(uuid)
    return outcomes


def _free(tx: Transaction, consumer_uuids: Sequence[str]) -> set[str]:
    """Delete the allocations of consumers, and return the consumers that had any."""
    old = _present(tx, set(consumer_uuids))
    using = {use.consumer_uuid for use in old}
    if old:
        freed = Counter[InventoryKey]()
        for use in old:
            freed[use.inventory] += use.used
        inventory_use.change(tx, {inventory: -amount for inventory, amount in freed.items()})
        _DELETE_ALLOCATIONS.run(tx.connection, uuids=list(using))
        providers.log_usage(tx, {use.provider_id for use in old})
    return using


#: Batched form of :func:`delete_for_consumer`, for Database.submit_batched.
delete_batched: BatchedWrite[str, bool] = batched(_delete_all)


def replace(tx: Transaction, requests: Sequence[ConsumerRequest]) -> None:
    """Replace the allocations of every consumer of ``requests``; if one fails, none is replaced.

    Raises: ConcurrentUpdate if a consumer's generation differs from that in the request; InvalidRequest for an unknown
    provider or resource class; Conflict if an inventory is missing, its units do not allow the amount, or its capacity
    would be exceeded. A provider that is over capacity still accepts a request that does not increase its usage.
    """
    _replace_all(tx, [requests])


def _replace_all(tx: Transaction, batches: Sequence[Sequence[ConsumerRequest]]) -> Sequence[None]:
    uuids = [request.consumer_uuid for batch in batches for request in batch]
    if len(set(uuids)) < len(uuids):
        raise Conflict("A consumer occurs more than once.")  # the writer then runs each batch separately, in order
    written = _write(tx, batches)
    rises = Counter(provider_id for batch in written for provider_id in batch.named)
    providers.rise(tx, rises)
    providers.log_usage(tx, frozenset().union(*(batch.changed for batch in written)))
    return [None] * len(batches)


#: Batched form of :func:`replace`, for Database.submit_batched.
replace_batched: BatchedWrite[Sequence[ConsumerRequest], None] = batched(_replace_all)


@dataclass(frozen=True, slots=True)
class Written:
    """Ids of the providers that a write affects.

    ``named``: providers in the requests, and the former providers of consumers that a request deletes; the generations
    of all these must be incremented. ``changed``: ``named``, and all other providers whose usage may have changed.
    """

    named: frozenset[int]
    changed: frozenset[int]


def write(tx: Transaction, requests: Sequence[ConsumerRequest]) -> Written:
    """Replace allocations like :func:`replace`, but do not increment provider generations or log the usage."""
    return _write(tx, [requests])[0]


def _write(tx: Transaction, batches: Sequence[Sequence[ConsumerRequest]]) -> list[Written]:
    requests = [request for batch in batches for request in batch]
    known_consumers = _known_generations(tx, requests)
    known = _providers(tx, requests)
    old = _present(tx, known_consumers)
    rows: list[dict[str, Any]] = [
        {
            "consumer": request.consumer_uuid,
            "provider": known[uuid].id,
            "class_id": known[uuid].inventories[name].class_id,
            "amount": amount,
        }
        for request in requests
        for uuid, resources in request.allocations.items()
        for name, amount in resources.items()
    ]
    change: dict[InventoryKey, int] = {}
    for inventory, amount in [(use.inventory, -use.used) for use in old] + [
        (_inventory_of(row), row["amount"]) for row in rows
    ]:
        change[inventory] = change.get(inventory, 0) + amount
    _check(requests, known, change)
    consumers.store(
        tx,
        [
            Consumer(request.consumer_uuid, request.project_id, request.user_id, request.consumer_type)
            for request in requests
            if request.allocations
        ],
        known_consumers,
    )
    if not inventory_use.change(tx, change):
        raise Conflict("Unable to allocate inventory: The requested amount would exceed the capacity.")
    if old:
        _DELETE_ALLOCATIONS.run(tx.connection, uuids=list({use.consumer_uuid for use in old}))
    _ALLOCATE.run(tx, rows, now=tx.now)
    empty = {request.consumer_uuid for request in requests if not request.allocations}
    if empty:
        consumers.remove(tx, empty)
    return [_written(batch, known, old) for batch in batches]


def allocate(tx: Transaction, uses: Sequence[Mapping[str, Any]]) -> None:
    """Insert allocations without counting them in ``inventories.used``, which the caller updates.

    ``uses``: rows of ``consumer`` (its uuid), ``provider``, ``class_id`` and ``amount``.
    """
    _ALLOCATE.run(tx, uses, now=tx.now)


def hand_over(tx: Transaction, heirs: Mapping[str, str], kind: str) -> None:
    """Move all allocations of a consumer, the giver, to another one, the taker; provider usage stays the same.

    ``heirs``: uuid of the giver → uuid of the taker. A taker that does not exist is created with the type ``kind`` and
    the project and user of its giver. Givers without allocations are skipped. The consumer rows of givers stay, because
    callers write new allocations for them. The generations of givers and existing takers are incremented.
    """
    givers = {row[0]: row for row in _HOLDERS.rows(tx.connection, uuids=list(heirs))} if heirs else {}
    if not givers:
        return
    takers = {heirs[giver] for giver in givers}
    present = consumers.present(tx, takers)
    new = [
        Consumer(heirs[uuid], project_id, user_id, kind)
        for uuid, project_id, user_id in givers.values()
        if heirs[uuid] not in present
    ]
    consumers.add(tx, new)
    consumers.raise_generations(tx, [*givers, *(takers & present)])
    _HAND_OVER.run(tx, [{"giver": giver, "taker": heirs[giver]} for giver in sorted(givers)])


def free(tx: Transaction, consumer_uuid: str) -> None:
    """Delete the allocations of a consumer, but keep its row for the new allocations that the caller writes."""
    _free(tx, [consumer_uuid])


def forget_idle(tx: Transaction, consumer_uuids: Sequence[str]) -> None:
    """Delete the consumers among ``consumer_uuids`` that have no allocations."""
    using = {use.consumer_uuid for use in _present(tx, consumer_uuids)}
    idle = [uuid for uuid in consumer_uuids if uuid not in using]
    if idle:
        consumers.remove(tx, idle)


# --- parts ----------------------------------------------------------------------------------------------------------


class _Use(NamedTuple):
    consumer_uuid: str
    provider_id: int
    class_id: int
    used: int

    @property
    def inventory(self) -> InventoryKey:
        return self.provider_id, self.class_id


def _inventory_of(row: Mapping[str, Any]) -> InventoryKey:
    return row["provider"], row["class_id"]


def _present(tx: Transaction, consumer_uuids: Collection[str]) -> list[_Use]:
    """Return every allocation of these consumers."""
    if not consumer_uuids:
        return []
    return [_Use(*row) for row in _PRESENT.rows(tx.connection, uuids=list(consumer_uuids))]


def _written(batch: Sequence[ConsumerRequest], known: Mapping[str, "_Provider"], old: Sequence[_Use]) -> Written:
    named = {known[uuid].id for request in batch for uuid in request.allocations}
    freed: set[int] = set()
    for request in batch:
        before = {use.provider_id for use in old if use.consumer_uuid == request.consumer_uuid}
        freed |= before
        if not request.allocations:
            named |= before
    return Written(frozenset(named), frozenset(named | freed))


class _Inventory(NamedTuple):
    class_id: int
    min_unit: int
    max_unit: int
    step_size: int
    capacity: int
    used: int


class _Provider(NamedTuple):
    id: int
    inventories: dict[str, _Inventory]


def _providers(tx: Transaction, requests: Sequence[ConsumerRequest]) -> dict[str, _Provider]:
    """Return provider uuid → provider, with every inventory that the requests name.

    Raises: InvalidRequest for a provider or resource class that does not exist; Conflict if an inventory is missing.
    """
    uuids = {uuid for request in requests for uuid in request.allocations}
    found: dict[str, _Provider] = {}
    if uuids:
        for uuid, provider_id, name, *inventory in _INVENTORIES.rows(tx.connection, uuids=list(uuids)):
            provider = found.setdefault(uuid, _Provider(provider_id, {}))
            if name is not None:
                provider.inventories[name] = _Inventory(*inventory)
    for uuid in sorted(uuids - found.keys()):
        raise InvalidRequest(f"Allocation for resource provider '{uuid}' that does not exist.")
    missing = [
        (request.consumer_uuid, uuid, name)
        for request in requests
        for uuid, resources in request.allocations.items()
        for name in resources
        if name not in found[uuid].inventories
    ]
    if missing:
        _require_classes(tx, {name: consumer_uuid for consumer_uuid, _, name in missing})
        _, uuid, name = missing[0]
        raise Conflict(f"Unable to allocate inventory: Inventory for '{name}' on resource provider '{uuid}' invalid.")
    return found


def _require_classes(tx: Transaction, asked: Mapping[str, str]) -> None:
    """Check that resource classes exist. ``asked``: resource class → consumer uuid. Raises: InvalidRequest."""
    try:
        class_ids_of(tx.connection, asked)
    except NotFound as error:
        uuids = ", ".join(sorted({asked[name] for name in error.fields["names"]}))
        raise InvalidRequest(f"Unable to allocate inventory for consumer {uuids}: {error.message}") from None


def _known_generations(tx: Transaction, requests: Sequence[ConsumerRequest]) -> dict[str, int]:
    """Return consumer uuid → generation of existing consumers.

    Raises: ConcurrentUpdate if a request expects another generation.
    """
    uuids = [request.consumer_uuid for request in requests]
    found = consumers.generations(tx, uuids)
    for request in requests:
        present = found.get(request.consumer_uuid)
        if request.guarded and present != request.generation:
            expected, got = ("null" if value is None else value for value in (present, request.generation))
            raise ConcurrentUpdate(f"consumer generation conflict - expected {expected} but got {got}")
    return found


def _check(
    requests: Sequence[ConsumerRequest], known: Mapping[str, _Provider], change: Mapping[InventoryKey, int]
) -> None:
    """Check amounts against unit constraints and capacity. Raises: Conflict naming resource class and provider."""
    for uuid, name, amount in (
        (uuid, name, amount)
        for request in requests
        for uuid, resources in request.allocations.items()
        for name, amount in resources.items()
    ):
        there = known[uuid].inventories[name]
        if not there.min_unit <= amount <= there.max_unit or amount % there.step_size:
            raise Conflict(
                f"Unable to allocate inventory: {amount} of '{name}' on resource provider '{uuid}' would violate "
                f"inventory constraints: min_unit {there.min_unit}, max_unit {there.max_unit}, "
                f"step_size {there.step_size}."
            )
        more = change[known[uuid].id, there.class_id]
        if more > 0 and there.used + more > there.capacity:
            raise Conflict(
                f"Unable to allocate inventory: Unable to create allocation for '{name}' on resource provider "
                f"'{uuid}'. The requested amount would exceed the capacity."
            )


# --- statements -----------------------------------------------------------------------------------------------------

_INVENTORY, _CONSUMER, _ALLOCATION = t.inventories.c, t.consumers.c, t.allocations.c
_UUIDS: sa.BindParameter[Any] = sa.bindparam("uuids", expanding=True)
_PRESENT = Prepared(
    sa.select(
        _ALLOCATION.consumer_uuid, _ALLOCATION.resource_provider_id, _ALLOCATION.resource_class_id, _ALLOCATION.used
    ).where(_ALLOCATION.consumer_uuid.in_(_UUIDS))
)
_HOLDERS = Prepared(
    sa.select(_CONSUMER.uuid, _CONSUMER.project_id, _CONSUMER.user_id).where(
        _CONSUMER.uuid.in_(_UUIDS), sa.exists().where(_ALLOCATION.consumer_uuid == _CONSUMER.uuid)
    )
)
_HAND_OVER = ManyRows(
    {"giver": _CONSUMER.uuid.type, "taker": _CONSUMER.uuid.type},
    lambda given: (
        sa.update(t.allocations).where(_ALLOCATION.consumer_uuid == given["giver"]).values(consumer_uuid=given["taker"])
    ),
)
_DELETE_ALLOCATIONS = Prepared(sa.delete(t.allocations).where(_ALLOCATION.consumer_uuid.in_(_UUIDS)))
_INVENTORIES = Prepared(
    sa.select(
        t.resource_providers.c.uuid,
        t.resource_providers.c.id,
        t.resource_classes.c.name,
        _INVENTORY.resource_class_id,
        _INVENTORY.min_unit,
        _INVENTORY.max_unit,
        _INVENTORY.step_size,
        _INVENTORY.capacity,
        _INVENTORY.used,
    )
    .select_from(t.resource_providers)
    .outerjoin(t.inventories, _INVENTORY.resource_provider_id == t.resource_providers.c.id)
    .outerjoin(t.resource_classes, t.resource_classes.c.id == _INVENTORY.resource_class_id)
    .where(t.resource_providers.c.uuid.in_(_UUIDS))
)
_NOW = sa.bindparam("now", type_=t.Time)
_ALLOCATE = insert_many(
    t.allocations,
    {
        "consumer_uuid": "consumer",
        "resource_provider_id": "provider",
        "resource_class_id": "class_id",
        "used": "amount",
    },
    created_at=_NOW,
)
