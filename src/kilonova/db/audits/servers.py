# SPDX-License-Identifier: Apache-2.0
"""Audit checks of the resources of servers and migrations on hypervisors: allocations, NUMA cells and PCI devices."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from kilonova.db import allocations, compute_nodes, host_devices, instances, server_migrations
from kilonova.db.allocations import ConsumerRequest
from kilonova.db.audits.finding import Finding
from kilonova.db.consumers import INSTANCE, MIGRATION
from kilonova.db.core import tables as t
from kilonova.db.core.transaction import Transaction
from kilonova.db.request_specs import get_many as request_specs_of
from kilonova.errors import Conflict
from kilonova.model.flavor import Flavor
from kilonova.model.host_devices import DeviceShare
from kilonova.model.instance import Instance
from kilonova.model.request_spec import RequestSpec
from kilonova.model.server_migration import MigrationStatus
from kilonova.records import dataclass
from kilonova.scheduler.resources import resource_query


@dataclass(frozen=True, slots=True)
class _Holder:
    """A consumer that may hold resources on one hypervisor: a server or a migration.

    ``label``: its name in findings. ``server``: uuid of the server. During a move, the server holds resources of the
    destination, and the migration those of the source. ``is_busy``: a workflow of the server may change ``host`` and
    ``node``.
    """

    server: str
    label: str
    host: str | None
    node: str | None
    is_busy: bool

    def is_at(self, host: str, node: str) -> bool:
        return self.is_busy or (self.host, self.node) == (host, node)


def _holders(connection: Connection) -> dict[str, _Holder]:
    """Return consumer uuid → holder, for all servers and all migrations in progress."""
    found: dict[str, _Holder] = {}
    for row in connection.execute(_SERVERS):
        found[row.uuid] = _Holder(row.uuid, f"server {row.uuid}", row.host, row.node, bool(row.is_busy))
    for migration in server_migrations.claimed(connection):
        server = found.get(migration.instance_uuid)
        if server is not None:
            if migration.status is not MigrationStatus.DONE:
                found[server.server] = replace(server, host=migration.dest_host, node=migration.dest_node)
            label = f"migration {migration.uuid}"
            found[migration.uuid] = _Holder(server.server, label, *migration.source, server.is_busy)
    return found


def _label(kind: str, uuid: str) -> str:
    return f"{'migration' if kind == MIGRATION else 'server'} {uuid}"


def allocations_without_server(connection: Connection) -> Iterator[Finding]:
    """Find allocations on hypervisors of this cloud whose server or migration is not recorded on that hypervisor."""
    holders = _holders(connection)
    for row in connection.execute(_HELD):
        holder = holders.get(row.consumer_uuid)
        if holder is not None and holder.is_at(row.host, row.node):
            continue
        label = _label(row.consumer_type, row.consumer_uuid)
        noun = label.split()[0]
        yield Finding(
            "allocation",
            f"{label} on host {row.host}",
            f"it holds resources of provider {row.name} ({row.uuid})",
            f"there is no such {noun}" if holder is None else f"the {noun} is on {holder.host or 'no host'}",
            "frees the resources",
            partial(_repair_stray_allocation, uuid=row.consumer_uuid, host=row.host, node=row.node),
        )


def _repair_stray_allocation(tx: Transaction, *, uuid: str, host: str, node: str) -> None:
    holder = _holders(tx.connection).get(uuid)
    if holder is not None and holder.is_at(host, node):
        return
    present = allocations.for_consumer(tx.connection, uuid)
    if present is None:
        return
    there = (_ALLOCATION.consumer_uuid == uuid, _NODE.host == host, _NODE.hypervisor_hostname == node)
    stray = set(tx.execute(_HELD.where(*there)).scalars())
    kept = {provider: resources for provider, resources in present.allocations.items() if provider not in stray}
    if kept:
        allocations.replace(tx, [ConsumerRequest(uuid, present.project_id, present.user_id, kept)])
    else:
        allocations.delete_for_consumer(tx, uuid)


def servers_without_allocation(connection: Connection) -> Iterator[Finding]:
    """Find servers and migrations without allocations on their host: the resources that they use count as free."""
    held = {(row.consumer_uuid, row.host, row.node) for row in connection.execute(_ALL_HELD)}
    for uuid, holder in _holders(connection).items():
        if holder.host is not None and not holder.is_busy and (uuid, holder.host, holder.node) not in held:
            yield Finding(
                "server",
                f"{holder.label} on host {holder.host}",
                "nothing is allocated to it there",
                "the resources that it uses count as free",
                "allocates the resources of its flavor, if they fit",
                partial(_repair_server, uuid=uuid),
            )


def _repair_server(tx: Transaction, *, uuid: str) -> None:
    holder = _holders(tx.connection).get(uuid)
    if holder is None or holder.is_busy or holder.host is None:
        return
    there = (_ALLOCATION.consumer_uuid == uuid, _NODE.host == holder.host, _NODE.hypervisor_hostname == holder.node)
    if tx.execute(_ALL_HELD.where(*there)).first() is not None:
        return
    nodes = compute_nodes.list_by_host(tx.connection, holder.host)
    node = next((node for node in nodes if node.hypervisor_hostname == holder.node), None)
    if node is None:
        raise Conflict(
            f"There is no hypervisor {holder.node} on host {holder.host}: start its agent, or delete the server."
        )
    server = instances.get(tx.connection, holder.server)
    asked = request_specs_of(tx.connection, [server])
    spec = asked[server.uuid].spec if server.uuid in asked else RequestSpec(server.flavor)
    flavor = _flavor_of(tx, server, uuid)
    resources = resource_query(flavor, spec.image, volume_backed=spec.volume_backed).totals
    present = allocations.for_consumer(tx.connection, uuid)
    whole = {**(present.allocations if present else {}), node.uuid: resources}
    kind = INSTANCE if uuid == server.uuid else MIGRATION
    allocations.replace(tx, [ConsumerRequest(uuid, server.project_id, server.user_id, whole, kind)])


def _flavor_of(tx: Transaction, server: Instance, holder: str) -> Flavor:
    """Return the flavor that determines the resources of ``holder``: the uuid of ``server`` or of one of its
    migrations.
    """
    moving = [each for each in server_migrations.open_of(tx.connection, [server.uuid]) if each.is_claimed]
    for migration in moving:
        if migration.uuid == holder:
            return migration.old_flavor
    arriving = [each for each in moving if each.status is not MigrationStatus.DONE]
    return arriving[-1].new_flavor if arriving else server.flavor


def devices_without_owner(connection: Connection) -> Iterator[Finding]:
    """Find NUMA cells and PCI devices held by a server or migration that is not on the hypervisor of these devices."""
    holders = _holders(connection)
    nodes = {node.uuid: node for node in compute_nodes.list_all(connection)}
    for taking in host_devices.shares(connection):
        node, holder = nodes.get(taking.node_uuid), holders.get(taking.instance_uuid)
        there = node is not None and holder is not None and holder.is_at(node.host, node.hypervisor_hostname)
        if not there and not (holder is not None and holder.is_busy):
            yield Finding(
                "devices",
                f"server {taking.instance_uuid} on hypervisor {taking.node_uuid}",
                "NUMA cells or PCI devices are held for it there",
                "there is no such server",
                "frees them",
                partial(_repair_devices_without_owner, uuid=taking.instance_uuid),
            )


def _repair_devices_without_owner(tx: Transaction, *, uuid: str) -> None:
    if any(finding.where.startswith(f"server {uuid} ") for finding in devices_without_owner(tx.connection)):
        host_devices.give_back(tx, uuid)


def wrong_device_use(connection: Connection) -> Iterator[Finding]:
    """Find hypervisors whose stored use of NUMA cells and PCI pools is not the sum of the use by their servers."""
    takings: dict[str, list[DeviceShare]] = defaultdict(list)
    for taking in host_devices.shares(connection):
        takings[taking.node_uuid].append(taking.share)
    for uuid, host in sorted(host_devices.list_all(connection).items()):
        if host != host.used_by(takings[uuid]):
            yield Finding(
                "devices",
                f"hypervisor {uuid}",
                "the counted use of its NUMA cells or PCI pools differs from what its servers hold",
                "dedicated CPUs, pages or devices would be assigned twice, or never",
                "computes the use again",
                partial(host_devices.recount, node_uuid=uuid),
            )


# --- statements -------------------------------------------------------------------------------------------------------

_PROVIDER, _NODE, _INSTANCE = t.resource_providers, t.compute_nodes.c, t.instances.c
_ALLOCATION, _CONSUMER = t.allocations.c, t.consumers.c
#: Servers, with ``is_busy``: whether a workflow is running that may change their host.
_SERVERS = sa.select(
    _INSTANCE.uuid,
    _INSTANCE.host,
    sa.func.coalesce(_INSTANCE.node, _INSTANCE.host).label("node"),
    sa.exists().where(t.workflows.c.instance_uuid == _INSTANCE.uuid).label("is_busy"),
).where(_INSTANCE.deleted.is_(False))


def _held() -> sa.Select[Any]:
    """Return the query for (provider, consumer, host, node) of all allocations in the provider trees of hypervisors."""
    root = _PROVIDER.alias("root")
    return (
        sa.select(_PROVIDER.c.uuid, _PROVIDER.c.name, _ALLOCATION.consumer_uuid, _NODE.host)
        .add_columns(_NODE.hypervisor_hostname.label("node"), t.consumers.c.consumer_type)
        .join_from(t.allocations, _PROVIDER, _PROVIDER.c.id == _ALLOCATION.resource_provider_id)
        .join(root, root.c.id == _PROVIDER.c.root_provider_id)
        .join(t.compute_nodes, _NODE.uuid == root.c.uuid)
        .outerjoin(t.consumers, _CONSUMER.uuid == _ALLOCATION.consumer_uuid)
        .distinct()
    )


_ALL_HELD = _held()
_HELD = _ALL_HELD.where(_CONSUMER.consumer_type.in_([INSTANCE, MIGRATION]))
