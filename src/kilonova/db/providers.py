# SPDX-License-Identifier: Apache-2.0
"""Resource providers, their trees and generations, and what the mirrors are told of them.

A provider's generation rises once per committed request that changes it. The guard is the row itself: :func:`advance`
updates it only at the expected generation, so the first writer wins on every database.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from kilonova.db import tables as t
from kilonova.db.statements import ManyRows, mapping
from kilonova.db.transaction import Transaction
from kilonova.errors import ConcurrentUpdate, Conflict, InvalidRequest, NotFound
from kilonova.model.provider import Inventory, Provider
from kilonova.model.vocabulary import is_custom

#: Set by the API when a compute service is disabled; an agent's report leaves it alone.
STATUS_DISABLED = "COMPUTE_STATUS_DISABLED"
#: Beginnings of the traits that agents report. All others are the operators', ``MISC_SHARES_VIA_AGGREGATE`` for one.
_REPORTED = ("COMPUTE_", "HW_", "OWNER_")

_root = t.resource_providers.alias("root")
_parent = t.resource_providers.alias("parent")
_ME = t.resource_providers
_PROVIDERS = sa.select(
    _ME.c.id,
    _ME.c.uuid,
    _ME.c.name,
    _ME.c.generation,
    _root.c.uuid,
    _parent.c.uuid,
    _ME.c.created_at,
    _ME.c.updated_at,
).select_from(
    _ME.outerjoin(_root, _ME.c.root_provider_id == _root.c.id).outerjoin(
        _parent, _ME.c.parent_provider_id == _parent.c.id
    )
)


@dataclass(frozen=True, slots=True)
class ProviderQuery:
    """What `GET /resource_providers` may ask for; every part that is set must hold.

    ``member_of``, ``required``: each inner set needs one of its members. ``resources``: free room for each amount.
    """

    uuid: str | None = None
    name: str | None = None
    in_tree: str | None = None
    member_of: Sequence[Collection[str]] = ()
    not_member_of: Collection[str] = ()
    required: Sequence[Collection[str]] = ()
    forbidden: Collection[str] = ()
    resources: Mapping[str, int] = field(default_factory=dict)


def find(connection: Connection, uuid: str) -> Provider | None:
    """Return a provider, or None."""
    row = connection.execute(_PROVIDERS.where(_ME.c.uuid == uuid)).first()
    return None if row is None else Provider(*row)


def get(connection: Connection, uuid: str) -> Provider:
    """Return a provider. Raises: NotFound."""
    provider = find(connection, uuid)
    if provider is None:
        raise NotFound(f"No resource provider with uuid {uuid} found")
    return provider


def by_uuid(connection: Connection, uuids: Collection[str]) -> dict[str, Provider]:
    """Return the providers that exist, by uuid."""
    rows = connection.execute(_PROVIDERS.where(_ME.c.uuid.in_(list(uuids))))
    return {row[1]: Provider(*row) for row in rows}


def list_matching(connection: Connection, query: ProviderQuery) -> tuple[Provider, ...]:
    """Return the providers that fit, oldest first. Names of classes and traits must exist."""
    statement = _PROVIDERS.order_by(_ME.c.id)
    if query.uuid is not None:
        statement = statement.where(_ME.c.uuid == query.uuid)
    if query.name is not None:
        statement = statement.where(_ME.c.name == query.name)
    if query.in_tree is not None:
        named = _ME.alias("named")
        root = sa.select(named.c.root_provider_id).where(named.c.uuid == query.in_tree).scalar_subquery()
        statement = statement.where(_ME.c.root_provider_id == root)
    for aggregates in query.member_of:
        statement = statement.where(_ME.c.id.in_(_members(aggregates)))
    if query.not_member_of:
        statement = statement.where(_ME.c.id.not_in(_members(query.not_member_of)))
    each = {name for names in query.required if len(names) == 1 for name in names}
    if each:
        counted = _having(each).group_by(t.resource_provider_traits.c.resource_provider_id)
        statement = statement.where(_ME.c.id.in_(counted.having(sa.func.count() == len(each))))
    for names in query.required:
        if len(names) > 1:
            statement = statement.where(_ME.c.id.in_(_having(names)))
    if query.forbidden:
        statement = statement.where(_ME.c.id.not_in(_having(query.forbidden)))
    for name, amount in query.resources.items():
        statement = statement.where(_ME.c.id.in_(_with_room(name, amount)))
    return tuple(Provider(*row) for row in connection.execute(statement))


def create(tx: Transaction, uuid: str, name: str, parent_uuid: str | None = None) -> Provider:
    """Add a provider, a root unless it has a parent. Raises: Conflict for a taken uuid or name, InvalidRequest."""
    if parent_uuid is not None and parent_uuid == uuid:
        raise InvalidRequest("parent provider UUID cannot be same as UUID: a provider without parent gives null.")
    parent = _parent_of(tx.connection, parent_uuid)
    _require_free(tx.connection, name=name, uuid=uuid)
    row = {"uuid": uuid, "name": name, "generation": 0, "created_at": tx.now}
    if parent is not None:
        row |= {"parent_provider_id": parent.id, "root_provider_id": _root_id(tx.connection, parent.id)}
    inserted = tx.execute(sa.insert(_ME), row).inserted_primary_key
    assert inserted is not None
    provider_id = int(inserted[0])
    if parent is None:
        tx.execute(sa.update(_ME).where(_ME.c.id == provider_id).values(root_provider_id=provider_id, updated_at=None))
    log_provider(tx, provider_id)
    return get(tx.connection, uuid)


def update(
    tx: Transaction,
    uuid: str,
    *,
    name: str,
    move: bool = False,
    parent_uuid: str | None = None,
    reparenting: bool = False,
) -> Provider:
    """Rename a provider and, if ``move``, put it under ``parent_uuid`` (None: make it a root) with its whole subtree.

    Without ``reparenting`` only a root may get a parent. Raises: NotFound, Conflict, InvalidRequest.
    """
    provider = get(tx.connection, uuid)
    if name != provider.name:
        _require_free(tx.connection, name=name)
    values: dict[str, Any] = {"name": name, "updated_at": tx.now}
    moved = [provider.id]
    if move and parent_uuid != provider.parent_uuid:
        parent = _parent_of(tx.connection, parent_uuid)
        if provider.parent_uuid is not None and not reparenting:
            raise InvalidRequest(
                "un-parenting a provider is not currently allowed."
                if parent is None
                else "re-parenting a provider is not currently allowed."
            )
        moved = _subtree(tx.connection, provider)
        if parent is not None and parent.id in moved:
            raise InvalidRequest("creating loop in the provider tree is not allowed.")
        root_id = provider.id if parent is None else _root_id(tx.connection, parent.id)
        values["parent_provider_id"] = None if parent is None else parent.id
        tx.execute(sa.update(_ME).where(_ME.c.id.in_(moved)).values(root_provider_id=root_id))
    elif move and parent_uuid is not None and parent_uuid == uuid:
        raise InvalidRequest("creating loop in the provider tree is not allowed.")
    tx.execute(sa.update(_ME).where(_ME.c.id == provider.id).values(values))
    for provider_id in moved:
        log_provider(tx, provider_id)
    return get(tx.connection, uuid)


def delete(tx: Transaction, uuid: str) -> None:
    """Remove a provider with its inventories. Raises: NotFound, Conflict while it has children or allocations."""
    provider = get(tx.connection, uuid)
    if (
        tx.connection.execute(sa.select(_ME.c.id).where(_ME.c.parent_provider_id == provider.id).limit(1)).first()
        is not None
    ):
        raise Conflict(
            f"Unable to delete parent resource provider {uuid}: It has child resource providers.",
            placement_code="placement.resource_provider.cannot_delete_parent",
        )
    allocated = sa.select(t.allocations.c.used).where(t.allocations.c.resource_provider_id == provider.id).limit(1)
    if tx.execute(allocated).first() is not None:
        raise Conflict(
            f"Unable to delete resource provider {uuid}: Resource provider has allocations.",
            placement_code="placement.resource_provider.inuse",
        )
    for table in (t.inventories, t.resource_provider_aggregates, t.resource_provider_traits):
        tx.execute(sa.delete(table).where(table.c.resource_provider_id == provider.id))
    tx.execute(sa.update(_ME).where(_ME.c.id == provider.id).values(root_provider_id=None))
    tx.execute(sa.delete(_ME).where(_ME.c.id == provider.id))
    tx.log("provider", uuid, None)


def advance(tx: Transaction, provider: Provider, steps: int = 1) -> int:
    """Raise the generation of a provider as it was read. Raises: ConcurrentUpdate if it is no longer there."""
    statement = (
        sa.update(_ME)
        .where(_ME.c.id == provider.id, _ME.c.generation == provider.generation)
        .values(generation=_ME.c.generation + steps, updated_at=tx.now)
    )
    if tx.execute(statement).rowcount != 1:
        raise ConcurrentUpdate("The resource provider was changed by another request. Read it again and retry.")
    return provider.generation + steps


_TOUCH = (
    sa.update(_ME)
    .where(_ME.c.id.in_(sa.bindparam("ids", expanding=True)))
    .values(generation=_ME.c.generation + 1, updated_at=sa.bindparam("now", type_=t.Time))
)


def touch(tx: Transaction, provider_ids: Collection[int]) -> None:
    """Raise the generation of each provider by one, whatever it is."""
    if not provider_ids:
        return
    tx.execute(_TOUCH, {"ids": sorted(provider_ids), "now": tx.now})


def rise(tx: Transaction, steps: Mapping[int, int]) -> None:
    """Raise the generation of each provider by its number of steps."""
    _RISE.run(
        tx, [{"provider": provider_id, "steps": count} for provider_id, count in sorted(steps.items())], now=tx.now
    )


_RISE = ManyRows(
    {"provider": sa.BigInteger(), "steps": sa.BigInteger()},
    lambda given: (
        sa.update(t.resource_providers)
        .where(t.resource_providers.c.id == given["provider"])
        .values(
            generation=t.resource_providers.c.generation + given["steps"],
            updated_at=sa.bindparam("now", type_=t.Time),
        )
    ),
)


def ensure_for_node(
    tx: Transaction, uuid: str, name: str, inventories: Sequence[Inventory], traits: Sequence[str]
) -> int:
    """Bring the root provider of a hypervisor to what its agent reports; repeating it changes nothing.

    Keeps what is used, ``COMPUTE_STATUS_DISABLED`` and traits of kinds that no agent reports. A class that is still
    allocated stays although the agent no longer reports it. Returns the row id.

    Raises: InvalidRequest for a resource class or trait that is neither known nor ``CUSTOM_``.
    """
    provider = find(tx.connection, uuid)
    if provider is None:
        provider = create(tx, uuid, name)
    changed = _report_inventories(tx, provider.id, inventories)
    changed = _report_traits(tx, provider.id, traits) or changed
    if provider.name != name:
        _require_free(tx.connection, name=name)
        tx.execute(sa.update(_ME).where(_ME.c.id == provider.id).values(name=name))
        changed = True
    if changed:
        touch(tx, [provider.id])
        log_provider(tx, provider.id)
    return provider.id


# --- what mirrors are told ------------------------------------------------------------------------------------------


def log_provider(tx: Transaction, provider_id: int) -> None:
    """Log everything that mirrors keep of one provider, as absolute values."""
    row = tx.connection.execute(_PROVIDERS.where(_ME.c.id == provider_id)).one()
    provider = Provider(*row)
    inventories = tx.connection.execute(
        sa.select(
            t.resource_classes.c.name,
            t.inventories.c.total,
            t.inventories.c.reserved,
            t.inventories.c.min_unit,
            t.inventories.c.max_unit,
            t.inventories.c.step_size,
            t.inventories.c.allocation_ratio,
            t.inventories.c.capacity,
            t.inventories.c.used,
        )
        .join(t.resource_classes, t.resource_classes.c.id == t.inventories.c.resource_class_id)
        .where(t.inventories.c.resource_provider_id == provider_id)
    )
    tx.log(
        "provider",
        provider.uuid,
        {
            "id": provider.id,
            "name": provider.name,
            "generation": provider.generation,
            "root": provider.root_uuid,
            "parent": provider.parent_uuid,
            "inventories": {name: list(values) for name, *values in inventories},
            "traits": trait_names(tx.connection, provider_id),
            "aggregates": aggregate_uuids(tx.connection, provider_id),
        },
    )


_USAGES = (
    sa.select(_ME.c.uuid, _ME.c.generation, t.resource_classes.c.name, t.inventories.c.used)
    .select_from(_ME)
    .outerjoin(t.inventories, t.inventories.c.resource_provider_id == _ME.c.id)
    .outerjoin(t.resource_classes, t.resource_classes.c.id == t.inventories.c.resource_class_id)
    .where(_ME.c.id.in_(sa.bindparam("ids", expanding=True)))
)


def log_usage(tx: Transaction, provider_ids: Collection[int]) -> None:
    """Log the generation and the use of providers whose allocations changed, in one query."""
    if not provider_ids:
        return
    usages: dict[str, dict[str, Any]] = {}
    for uuid, generation, name, used in tx.connection.execute(_USAGES, {"ids": list(provider_ids)}):
        usage = usages.setdefault(uuid, {"generation": generation, "used": {}})
        if name is not None:
            usage["used"][name] = used
    for uuid, usage in usages.items():
        tx.log("usage", uuid, usage)


def trait_names(connection: Connection, provider_id: int) -> list[str]:
    """Return the traits of one provider, by name."""
    links = t.resource_provider_traits
    statement = sa.select(t.traits.c.name).join(links, links.c.trait_id == t.traits.c.id)
    return list(
        connection.execute(
            statement.where(links.c.resource_provider_id == provider_id).order_by(t.traits.c.name)
        ).scalars()
    )


def aggregate_uuids(connection: Connection, provider_id: int) -> list[str]:
    """Return the placement aggregates of one provider, oldest first."""
    links, aggregates = t.resource_provider_aggregates, t.placement_aggregates
    statement = sa.select(aggregates.c.uuid).join(links, links.c.aggregate_id == aggregates.c.id)
    return list(
        connection.execute(
            statement.where(links.c.resource_provider_id == provider_id).order_by(aggregates.c.id)
        ).scalars()
    )


# --- parts ----------------------------------------------------------------------------------------------------------


def _members(aggregates: Collection[str]) -> sa.Select[Any]:
    links = t.resource_provider_aggregates
    statement = sa.select(links.c.resource_provider_id).join(
        t.placement_aggregates, t.placement_aggregates.c.id == links.c.aggregate_id
    )
    return statement.where(t.placement_aggregates.c.uuid.in_(list(aggregates)))


def _having(traits: Collection[str]) -> sa.Select[Any]:
    links = t.resource_provider_traits
    statement = sa.select(links.c.resource_provider_id).join(t.traits, t.traits.c.id == links.c.trait_id)
    return statement.where(t.traits.c.name.in_(list(traits)))


def _with_room(name: str, amount: int) -> sa.Select[Any]:
    table = t.inventories
    return (
        sa.select(table.c.resource_provider_id)
        .join(t.resource_classes, t.resource_classes.c.id == table.c.resource_class_id)
        .where(
            t.resource_classes.c.name == name,
            table.c.used <= table.c.capacity - amount,
            table.c.min_unit <= amount,
            table.c.max_unit >= amount,
            sa.literal(amount) % table.c.step_size == 0,
        )
    )


def _parent_of(connection: Connection, parent_uuid: str | None) -> Provider | None:
    if parent_uuid is None:
        return None
    parent = find(connection, parent_uuid)
    if parent is None:
        raise InvalidRequest("parent provider UUID does not exist.")
    return parent


def _root_id(connection: Connection, provider_id: int) -> int:
    return int(connection.execute(sa.select(_ME.c.root_provider_id).where(_ME.c.id == provider_id)).scalar_one())


def _require_free(connection: Connection, *, name: str, uuid: str | None = None) -> None:
    taken = []
    if uuid is not None and connection.execute(sa.select(_ME.c.id).where(_ME.c.uuid == uuid)).first() is not None:
        taken.append(f"uuid: {uuid}")
    if connection.execute(sa.select(_ME.c.id).where(_ME.c.name == name)).first() is not None:
        taken.append(f"name: {name}" if uuid is not None else name)
    if taken:
        raise Conflict(
            f"Conflicting resource provider {', '.join(taken)} already exists.",
            placement_code="placement.duplicate_name",
        )


def _subtree(connection: Connection, provider: Provider) -> list[int]:
    """Return the ids of a provider and all below it, parents first."""
    root_id = _root_id(connection, provider.id)
    children: dict[int, list[int]] = {}
    rows = connection.execute(sa.select(_ME.c.id, _ME.c.parent_provider_id).where(_ME.c.root_provider_id == root_id))
    for row_id, parent_id in rows:
        children.setdefault(parent_id, []).append(row_id)
    found = [provider.id]
    for row_id in found:
        found += children.get(row_id, [])
    return found


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


def inventory_values(inventory: Inventory) -> dict[str, Any]:
    """Return the columns that describe an inventory, the floored capacity among them."""
    return {
        "total": inventory.total,
        "reserved": inventory.reserved,
        "min_unit": inventory.min_unit,
        "max_unit": inventory.max_unit,
        "step_size": inventory.step_size,
        "allocation_ratio": inventory.allocation_ratio,
        "capacity": inventory.capacity,
    }


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
    unknown = [name for name in missing if not is_custom(name)]
    if unknown:
        raise InvalidRequest(f"Unknown in {table.name.replace('_', ' ')}: {', '.join(unknown)}.")
    if missing:
        tx.execute(sa.insert(table), [{"name": name, "created_at": tx.now} for name in missing])
        found = mapping(tx.connection, statement)
    return found
