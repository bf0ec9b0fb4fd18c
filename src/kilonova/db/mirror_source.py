# SPDX-License-Identifier: Apache-2.0
"""Everything the mirror holds, read in one snapshot and told as changes, so that loading and following are one code."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from kilonova.db import tables as t
from kilonova.db.database import Change, Database
from kilonova.db.statements import mapping
from kilonova.model.instance import IO_HEAVY_TASKS, VmState


@dataclass(frozen=True, slots=True)
class Loaded:
    """The state after commit ``seq``."""

    seq: int
    changes: tuple[Change, ...]


def load(database: Database) -> Loaded:
    """Read the present state. The seq and the rows belong to the same snapshot."""
    with database.read() as connection:
        seq = connection.execute(sa.select(t.change_counter.c.seq)).scalar() or 0
        changes = (
            *_providers(connection),
            *_services(connection),
            *_nodes(connection),
            *_aggregates(connection),
            *_groups(connection),
            *_instances(connection),
        )
    return Loaded(seq, changes)


def epoch(moment: datetime | None) -> float | None:
    """Return seconds since 1970 of a time as the tables keep it."""
    return None if moment is None else moment.replace(tzinfo=UTC).timestamp()


def _providers(connection: Connection) -> Iterator[Change]:
    traits: dict[int, list[str]] = defaultdict(list)
    link = t.resource_provider_traits
    joined = sa.select(link.c.resource_provider_id, t.traits.c.name).join(t.traits, t.traits.c.id == link.c.trait_id)
    for provider_id, name in connection.execute(joined):
        traits[provider_id].append(name)
    aggregates: dict[int, list[str]] = defaultdict(list)
    member = t.resource_provider_aggregates
    joined = sa.select(member.c.resource_provider_id, t.placement_aggregates.c.uuid).join(
        t.placement_aggregates, t.placement_aggregates.c.id == member.c.aggregate_id
    )
    for provider_id, uuid in connection.execute(joined):
        aggregates[provider_id].append(uuid)
    classes = mapping(connection, sa.select(t.resource_classes.c.id, t.resource_classes.c.name))
    inventories: dict[int, dict[str, list[Any]]] = defaultdict(dict)
    inventory = t.inventories.c
    columns = (
        inventory.total,
        inventory.reserved,
        inventory.min_unit,
        inventory.max_unit,
        inventory.step_size,
        inventory.allocation_ratio,
        inventory.capacity,
        inventory.used,
    )
    rows = connection.execute(sa.select(inventory.resource_provider_id, inventory.resource_class_id, *columns))
    for provider_id, class_id, *figures in rows:
        inventories[provider_id][classes[class_id]] = figures
    provider = t.resource_providers.c
    found = connection.execute(
        sa.select(
            provider.id,
            provider.uuid,
            provider.name,
            provider.generation,
            provider.root_provider_id,
            provider.parent_provider_id,
        ).order_by(provider.id)
    ).all()
    uuids = {row.id: row.uuid for row in found}
    for row in found:
        yield Change(
            "provider",
            row.uuid,
            {
                "id": row.id,
                "name": row.name,
                "generation": row.generation,
                "root": uuids.get(row.root_provider_id, row.uuid),
                "parent": uuids.get(row.parent_provider_id),
                "inventories": inventories.get(row.id, {}),
                "traits": traits.get(row.id, []),
                "aggregates": aggregates.get(row.id, []),
            },
        )


def _services(connection: Connection) -> Iterator[Change]:
    rows = connection.execute(sa.select(t.services).where(t.services.c.binary == "nova-compute"))
    for row in rows:
        yield Change(
            "service",
            row.host,
            {
                "disabled": row.disabled,
                "reason": row.disabled_reason,
                "forced_down": row.forced_down,
                "last_seen": epoch(row.last_seen_at),
                "created": epoch(row.created_at),
            },
        )


def _nodes(connection: Connection) -> Iterator[Change]:
    for row in connection.execute(sa.select(t.compute_nodes)):
        yield Change(
            "node",
            row.uuid,
            {
                "host": row.host,
                "node": row.hypervisor_hostname,
                "host_ip": row.host_ip,
                "capabilities": row.capabilities,
                "failed_builds": row.failed_builds,
            },
        )


def _aggregates(connection: Connection) -> Iterator[Change]:
    hosts: dict[int, list[str]] = defaultdict(list)
    for aggregate_id, host in connection.execute(
        sa.select(t.aggregate_hosts.c.aggregate_id, t.aggregate_hosts.c.host).order_by(t.aggregate_hosts.c.id)
    ):
        hosts[aggregate_id].append(host)
    metadata: dict[int, dict[str, str]] = defaultdict(dict)
    for aggregate_id, key, value in connection.execute(sa.select(t.aggregate_metadata)):
        metadata[aggregate_id][key] = value
    for row in connection.execute(sa.select(t.aggregates).order_by(t.aggregates.c.id)):
        value = {"uuid": row.uuid, "name": row.name, "hosts": hosts[row.id], "metadata": metadata[row.id]}
        yield Change("aggregate", str(row.id), value)


def _groups(connection: Connection) -> Iterator[Change]:
    hosts: dict[int, dict[str, int]] = defaultdict(dict)
    for group_id, host, members in connection.execute(sa.select(t.server_group_hosts)):
        if members:
            hosts[group_id][host] = members
    for row in connection.execute(sa.select(t.server_groups)):
        value = {"policy": row.policy, "max": row.max_server_per_host, "host": row.host, "hosts": hosts[row.id]}
        yield Change("group", row.uuid, value)


def _instances(connection: Connection) -> Iterator[Change]:
    instance = t.instances.c
    rows = connection.execute(
        sa.select(instance.uuid, instance.host, instance.node, instance.vm_state, instance.task_state).where(
            instance.deleted.is_(False), instance.host.is_not(None)
        )
    )
    for row in rows:
        yield Change("instance", row.uuid, instance_value(row.host, row.node, row.vm_state, row.task_state))


def instance_value(host: str, node: str | None, vm_state: str, task_state: str | None) -> dict[str, Any]:
    """Return the logged value of an instance that is on a host."""
    return {"host": host, "node": node or host, "io": vm_state == VmState.BUILDING or task_state in IO_HEAVY_TASKS}
