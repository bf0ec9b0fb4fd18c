# SPDX-License-Identifier: Apache-2.0
"""The audit: all consistency checks of allocations, providers, hypervisors, server groups and quotas.

Each check is a function that reads one snapshot and yields findings. The ``repair`` function of a finding runs in its
own transaction, and first repeats the check, because other processes may have written since the snapshot.

Consumers of type INSTANCE and MIGRATION are compared with servers and their migrations only if the consumer uses a
hypervisor of this cloud: if a separate Nova uses Kilonova as its Placement, that Nova's hypervisors and servers are not
in this database.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from kilonova.db import (
    aggregates,
    allocations,
    group_guards,
    instances,
    provider_states,
    providers,
    quotas,
    server_migrations,
    services,
)
from kilonova.db.audits.finding import Finding
from kilonova.db.audits.guests import guests_not_recorded, servers_without_guest
from kilonova.db.audits.servers import (
    allocations_without_server,
    devices_without_owner,
    servers_without_allocation,
    wrong_device_use,
)
from kilonova.db.consumers import INSTANCE, MIGRATION
from kilonova.db.core import tables as t
from kilonova.db.core.statements import mapping
from kilonova.db.core.transaction import Transaction
from kilonova.errors import Conflict
from kilonova.model.host import COMPUTE
from kilonova.model.instance import Instance
from kilonova.model.provider import floored_capacity
from kilonova.model.quota import Usage


def find_all(connection: Connection) -> tuple[Finding, ...]:
    """Return the findings of all checks, in an order in which they can be repaired."""
    return tuple(finding for check in CHECKS for finding in check(connection))


# --- inventories and allocations --------------------------------------------------------------------------------------


def wrong_capacities(connection: Connection) -> Iterator[Finding]:
    """Find inventories whose stored capacity is not (total - reserved) x allocation_ratio, rounded down."""
    for row in connection.execute(_INVENTORIES):
        right = floored_capacity(row.total, row.reserved, row.allocation_ratio)
        if row.capacity != right:
            yield Finding(
                "capacity",
                f"provider {row.name} ({row.uuid}), {row.resource_class}",
                f"capacity {row.capacity} is stored",
                f"({row.total} - {row.reserved}) x {row.allocation_ratio}, rounded down, is {right}",
                f"stores {right}",
                partial(_repair_capacity, provider_id=row.resource_provider_id, class_id=row.resource_class_id),
            )


def _repair_capacity(tx: Transaction, *, provider_id: int, class_id: int) -> None:
    table = t.inventories
    cell = (table.c.resource_provider_id == provider_id) & (table.c.resource_class_id == class_id)
    row = tx.execute(sa.select(table.c.total, table.c.reserved, table.c.allocation_ratio).where(cell)).first()
    if row is not None:
        right = floored_capacity(row.total, row.reserved, row.allocation_ratio)
        tx.execute(sa.update(table).where(cell).values(capacity=right, updated_at=tx.now))
        provider_states.log_stored(tx, [provider_id])


def wrong_usages(connection: Connection) -> Iterator[Finding]:
    """Find inventories whose ``used`` is not the sum of their allocations, and allocations without an inventory."""
    sums = _sums(connection)
    for row in connection.execute(_INVENTORIES):
        right = sums.pop((row.resource_provider_id, row.resource_class_id), 0)
        if row.used != right:
            yield Finding(
                "usage",
                f"provider {row.name} ({row.uuid}), {row.resource_class}",
                f"used is {row.used}",
                f"the allocations add up to {right}",
                f"sets used to {right}",
                partial(_repair_usage, provider_id=row.resource_provider_id, class_id=row.resource_class_id),
            )
    names = mapping(connection, sa.select(t.resource_classes.c.id, t.resource_classes.c.name))
    labels = {row.id: f"{row.name} ({row.uuid})" for row in connection.execute(sa.select(_PROVIDER))}
    for (provider_id, class_id), amount in sums.items():
        yield Finding(
            "inventory",
            f"provider {labels.get(provider_id, f'number {provider_id}')}, {names.get(class_id, class_id)}",
            f"{amount} is allocated",
            "the provider has no inventory of that class",
            f"adds an inventory of {amount}, all of it used",
            partial(_repair_inventory, provider_id=provider_id, class_id=class_id),
        )


def _sums(connection: Connection, provider_id: int | None = None) -> dict[tuple[int, int], int]:
    cell = _ALLOCATION.resource_provider_id, _ALLOCATION.resource_class_id
    statement = sa.select(*cell, sa.func.sum(_ALLOCATION.used)).group_by(*cell)
    if provider_id is not None:
        statement = statement.where(_ALLOCATION.resource_provider_id == provider_id)
    return {(row[0], row[1]): int(row[2]) for row in connection.execute(statement)}


def _repair_usage(tx: Transaction, *, provider_id: int, class_id: int) -> None:
    right = _sums(tx.connection, provider_id).get((provider_id, class_id), 0)
    table = t.inventories
    cell = (table.c.resource_provider_id == provider_id) & (table.c.resource_class_id == class_id)
    tx.execute(sa.update(table).where(cell).values(used=right))
    providers.log_usage(tx, [provider_id])


def _repair_inventory(tx: Transaction, *, provider_id: int, class_id: int) -> None:
    amount = _sums(tx.connection, provider_id).get((provider_id, class_id), 0)
    table = t.inventories
    cell = (table.c.resource_provider_id == provider_id) & (table.c.resource_class_id == class_id)
    if not amount or tx.execute(sa.select(table.c.used).where(cell)).first() is not None:
        return
    _require_provider(tx, provider_id)
    figures = {"total": amount, "reserved": 0, "min_unit": 1, "max_unit": amount, "step_size": 1}
    keys = {"resource_provider_id": provider_id, "resource_class_id": class_id, "created_at": tx.now}
    tx.execute(sa.insert(table), {**keys, **figures, "allocation_ratio": 1.0, "capacity": amount, "used": amount})
    providers.touch(tx, [provider_id])
    provider_states.log_stored(tx, [provider_id])


def _require_provider(tx: Transaction, provider_id: int) -> None:
    if tx.execute(sa.select(_PROVIDER.c.id).where(_PROVIDER.c.id == provider_id)).first() is None:
        raise Conflict(f"There is no provider with id {provider_id}: restore the provider, or remove its allocations.")


def allocations_without_consumer(connection: Connection) -> Iterator[Finding]:
    """Find allocations whose consumer has no row: the API can neither list nor delete them."""
    lost = (
        sa.select(_ALLOCATION.consumer_uuid, sa.func.count())
        .select_from(t.allocations.outerjoin(t.consumers, _CONSUMER.uuid == _ALLOCATION.consumer_uuid))
        .where(_CONSUMER.uuid.is_(None))
        .group_by(_ALLOCATION.consumer_uuid)
    )
    for uuid, count in connection.execute(lost):
        owner = _owner(connection, uuid)
        kind = "" if owner is None else "a server" if owner.uuid == uuid else "the migration of a server"
        yield Finding(
            "consumer",
            f"consumer {uuid}",
            f"it has {count} allocations",
            "the consumer has no row, so its allocations cannot be listed or freed",
            f"adds the row: the consumer is {kind}" if kind else "frees the allocations: there is no such server",
            partial(_repair_consumer, uuid=uuid),
        )


def _repair_consumer(tx: Transaction, *, uuid: str) -> None:
    if tx.execute(sa.select(_CONSUMER.uuid).where(_CONSUMER.uuid == uuid)).first() is not None:
        return
    owner = _owner(tx.connection, uuid)
    if owner is None:
        allocations.delete_for_consumer(tx, uuid)
        return
    kind = INSTANCE if owner.uuid == uuid else MIGRATION
    row = {"uuid": uuid, "project_id": owner.project_id, "user_id": owner.user_id, "consumer_type": kind}
    tx.execute(sa.insert(t.consumers), {**row, "generation": 1, "created_at": tx.now})


def _owner(connection: Connection, uuid: str) -> Instance | None:
    """Return the server that has a consumer's uuid, or of which a migration has that uuid; None if there is none."""
    moving = next((each for each in server_migrations.claimed(connection) if each.uuid == uuid), None)
    return instances.find(connection, uuid if moving is None else moving.instance_uuid)


def consumers_without_allocations(connection: Connection) -> Iterator[Finding]:
    """Find consumers without allocations; their rows should have been deleted with their last allocation."""
    idle = (
        sa.select(_CONSUMER.uuid)
        .select_from(t.consumers.outerjoin(t.allocations, _CONSUMER.uuid == _ALLOCATION.consumer_uuid))
        .where(_ALLOCATION.consumer_uuid.is_(None))
    )
    for uuid in connection.execute(idle).scalars():
        yield Finding(
            "consumer",
            f"consumer {uuid}",
            "its row exists",
            "it has no allocations, and its next allocations would be refused because of the generation in the row",
            "deletes the row",
            partial(_repair_idle_consumer, uuid=uuid),
        )


def _repair_idle_consumer(tx: Transaction, *, uuid: str) -> None:
    used = sa.exists().where(_ALLOCATION.consumer_uuid == uuid)
    tx.execute(sa.delete(t.consumers).where(_CONSUMER.uuid == uuid, sa.not_(used)))


# --- hypervisors ------------------------------------------------------------------------------------------------------


def providers_without_node(connection: Connection) -> Iterator[Finding]:
    """Find root providers with VCPU and MEMORY_MB that are no hypervisors; skipped if there is no compute service."""
    ours = sa.select(t.services.c.id).where(t.services.c.binary == COMPUTE)
    if connection.execute(ours.limit(1)).first() is None:
        return
    inventory, name = t.inventories.c, t.resource_classes.c.name
    having = sa.select(inventory.resource_provider_id).join(
        t.resource_classes, t.resource_classes.c.id == inventory.resource_class_id
    )
    lost = sa.select(_PROVIDER.c.uuid, _PROVIDER.c.name).where(
        _PROVIDER.c.parent_provider_id.is_(None),
        _PROVIDER.c.id.in_(having.where(name == "VCPU")),
        _PROVIDER.c.id.in_(having.where(name == "MEMORY_MB")),
        _PROVIDER.c.uuid.not_in(sa.select(_NODE.uuid)),
    )
    for uuid, provider_name in connection.execute(lost.order_by(_PROVIDER.c.id)):
        yield Finding(
            "provider",
            f"provider {provider_name} ({uuid})",
            "it has inventories of VCPU and MEMORY_MB, as hypervisors do",
            "no hypervisor of this cloud has its uuid, and a new hypervisor could not get its name",
            "deletes it, if nothing is allocated there and it has no children",
            partial(_repair_provider, uuid=uuid),
        )


def _repair_provider(tx: Transaction, *, uuid: str) -> None:
    there = tx.execute(sa.select(_NODE.id).where(_NODE.uuid == uuid)).first() is not None
    if not there and providers.find(tx.connection, uuid) is not None:
        providers.delete(tx, uuid)


def nodes_without_provider(connection: Connection) -> Iterator[Finding]:
    """Find hypervisors without a resource provider."""
    known = sa.select(_PROVIDER.c.uuid)
    for row in connection.execute(sa.select(t.compute_nodes).where(_NODE.uuid.not_in(known)).order_by(_NODE.id)):
        yield Finding(
            "node",
            f"hypervisor {row.hypervisor_hostname} ({row.uuid}) on host {row.host}",
            "there is no resource provider with its uuid",
            "nothing can be placed there",
            "adds the provider; the agent adds its inventories at its next start",
            partial(_repair_node, uuid=row.uuid, host=row.host, name=row.hypervisor_hostname),
        )


def _repair_node(tx: Transaction, *, uuid: str, host: str, name: str) -> None:
    if providers.find(tx.connection, uuid) is None:
        providers.create(tx, uuid, name)
        aggregates.mirror_into_placement(tx, host)
        service = services.find_by_host(tx.connection, host)
        services.mark_providers(tx, host, disabled=service is not None and service.disabled)


def wrong_aggregates(connection: Connection) -> Iterator[Finding]:
    """Find hypervisors whose provider aggregates differ from the aggregates of their host.

    Provider aggregates that exist only in Placement are ignored.
    """
    links, groups = t.resource_provider_aggregates.c, t.placement_aggregates.c
    members: dict[str, set[str]] = defaultdict(set)
    names: dict[str, str] = {}
    for aggregate in aggregates.list_all(connection):
        names[aggregate.uuid] = aggregate.name
        for host in aggregate.hosts:
            members[host].add(aggregate.uuid)
    present: dict[str, set[str]] = defaultdict(set)
    listed = (
        sa.select(_PROVIDER.c.uuid, groups.uuid)
        .join_from(t.resource_provider_aggregates, _PROVIDER, _PROVIDER.c.id == links.resource_provider_id)
        .join(t.placement_aggregates, groups.id == links.aggregate_id)
    )
    for provider_uuid, aggregate_uuid in connection.execute(listed):
        if aggregate_uuid in names:
            present[provider_uuid].add(aggregate_uuid)
    nodes = sa.select(_NODE.uuid, _NODE.host).join(_PROVIDER, _PROVIDER.c.uuid == _NODE.uuid).order_by(_NODE.id)
    for uuid, host in connection.execute(nodes):
        if present[uuid] != members[host]:
            lacking = sorted(names[one] for one in members[host] - present[uuid])
            extra = sorted(names[one] for one in present[uuid] - members[host])
            parts = [f"it is not in {', '.join(lacking)}"] * bool(lacking)
            parts += [f"it is in {', '.join(extra)}, but its host is not"] * bool(extra)
            yield Finding(
                "aggregate",
                f"provider {uuid} of host {host}",
                "; ".join(parts),
                "its provider aggregates must equal the aggregates of its host, or requests are placed wrongly",
                "makes them equal",
                partial(aggregates.mirror_exactly, host=host),
            )


# --- server groups ----------------------------------------------------------------------------------------------------


def wrong_group_hosts(connection: Connection) -> Iterator[Finding]:
    """Find server groups with a wrong number of members on a host, or with a wrong host for the affinity policy."""
    right = group_guards.counted(connection)
    stored: dict[int, dict[str, int]] = defaultdict(dict)
    for row in connection.execute(sa.select(t.server_group_hosts).order_by(t.server_group_hosts.c.host)):
        stored[row.group_id][row.host] = row.members
    for group in connection.execute(sa.select(t.server_groups).order_by(t.server_groups.c.id)):
        members = right.get(group.uuid, {})
        held = group_guards.host_of(group.policy, members, group.host)
        if stored[group.id] != members or held != group.host:
            yield Finding(
                "group",
                f"server group {group.name} ({group.uuid}), {group.policy}",
                f"it counts: {_counts(stored[group.id])}; host {group.host or 'none'}",
                f"its members are: {_counts(members)}; host {held or 'none'}",
                "counts its members again",
                partial(group_guards.recount, group_uuid=group.uuid),
            )


# --- quotas -----------------------------------------------------------------------------------------------------------


def wrong_quota_usages(connection: Connection) -> Iterator[Finding]:
    """Find quota usage rows whose counts differ from the servers of the row's project or user."""
    right, stored = quotas.counted_everywhere(connection), quotas.stored(connection)
    projects = {key for key in right if key[1] == quotas.EVERYBODY}
    for project_id, user_id in sorted(stored.keys() | projects):
        counts = stored.get((project_id, user_id), Usage())
        should = right.get((project_id, user_id), Usage())
        if counts != should:
            yield Finding(
                "quota",
                f"project {project_id}" + (f", user {user_id}" if user_id != quotas.EVERYBODY else ""),
                f"{_amounts(counts)} count against its quota",
                f"its servers use {_amounts(should)}",
                "counts its servers again",
                partial(quotas.recount, project_id=project_id, user_id=user_id),
            )


def _amounts(usage: Usage) -> str:
    return ", ".join(f"{amount} {name}" for name, amount in usage.items())


def _counts(members: Mapping[str, int]) -> str:
    return ", ".join(f"{count} on {host}" for host, count in sorted(members.items())) or "no members"


Check = Callable[[Connection], Iterator[Finding]]
#: All checks in the order of repair: providers before their allocations, and the checks that change allocations before
#: the checks of sums of allocations.
CHECKS: Sequence[Check] = (
    wrong_capacities,
    providers_without_node,
    nodes_without_provider,
    allocations_without_consumer,
    allocations_without_server,
    wrong_usages,
    consumers_without_allocations,
    servers_without_allocation,
    wrong_aggregates,
    wrong_group_hosts,
    devices_without_owner,
    wrong_device_use,
    wrong_quota_usages,
    guests_not_recorded,
    servers_without_guest,
)


# --- statements -------------------------------------------------------------------------------------------------------

_PROVIDER, _NODE = t.resource_providers, t.compute_nodes.c
_ALLOCATION, _CONSUMER = t.allocations.c, t.consumers.c
_INVENTORIES = (
    sa.select(t.inventories, _PROVIDER.c.uuid, _PROVIDER.c.name, t.resource_classes.c.name.label("resource_class"))
    .join(_PROVIDER, _PROVIDER.c.id == t.inventories.c.resource_provider_id)
    .join(t.resource_classes, t.resource_classes.c.id == t.inventories.c.resource_class_id)
    .order_by(t.inventories.c.resource_provider_id, t.inventories.c.resource_class_id)
)
