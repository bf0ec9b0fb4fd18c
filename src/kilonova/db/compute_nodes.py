# SPDX-License-Identifier: Apache-2.0
"""Hypervisors, found by (service host, hypervisor hostname). A hypervisor and its provider have the same fixed uuid."""

from collections.abc import Collection, Mapping, Sequence
from operator import itemgetter
from typing import Any, NamedTuple

import orjson
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from kilonova.db import host_devices, provider_states, providers
from kilonova.db.change_log.changes import LoggedCapabilities, LoggedNode
from kilonova.db.core import tables as t
from kilonova.db.core.prepared import Prepared, PreparedInsert
from kilonova.db.core.statements import mapping, pieces
from kilonova.db.core.transaction import Transaction
from kilonova.deadline import heeding
from kilonova.errors import NotFound
from kilonova.identifiers import new_uuid
from kilonova.model.address import canonical_address
from kilonova.model.host import Capabilities, ComputeNode, NodeReport
from kilonova.records import dataclass

_FAILING = Prepared(
    sa.select(t.compute_nodes.c.uuid).where(
        t.compute_nodes.c.uuid.in_(sa.bindparam("uuids", expanding=True)), t.compute_nodes.c.failed_builds > 0
    )
)
_NODE = t.compute_nodes.c
_INSERT = PreparedInsert(t.compute_nodes)
_CHANGE = Prepared(
    sa.update(t.compute_nodes)
    .where(_NODE.uuid == sa.bindparam("new_uuid", type_=_NODE.uuid.type))
    .values(
        {
            name: sa.bindparam(f"new_{name}", type_=_NODE[name].type)
            for name in ("host_ip", "capabilities", "abilities", "metrics", "updated_at")
        }
    )
)
_CAPABILITIES = Prepared(
    sa.select(_NODE.capabilities, _NODE.abilities).where(
        _NODE.host == sa.bindparam("host"), _NODE.hypervisor_hostname == sa.bindparam("node")
    )
)
_FIGURES = {"VCPU": "vcpus", "MEMORY_MB": "memory_mib", "DISK_GB": "disk_gib"}


@dataclass(frozen=True, slots=True)
class NodeUsage:
    """Totals and usage of VCPU, MEMORY_MB and DISK_GB of a hypervisor, and its number of servers.

    Reserved amounts count as used. ``busy_instances``: number of servers with a task state. Units: cores, MiB, GiB.
    """

    vcpus: int = 0
    vcpus_used: int = 0
    memory_mib: int = 0
    memory_mib_used: int = 0
    disk_gib: int = 0
    disk_gib_used: int = 0
    instances: int = 0
    busy_instances: int = 0


class NodeKey(NamedTuple):
    """The identifiers of a hypervisor: its id, uuid, host and hostname."""

    id: int
    uuid: str
    host: str
    hypervisor_hostname: str


def report_all(tx: Transaction, said: Sequence[NodeReport]) -> list[ComputeNode]:
    """Store the reports of agents about their hypervisors: insert new nodes, and update changed columns of known nodes.

    Returns one node per report, in the order of ``said``. Of several reports about one node, the last is stored.
    """
    newest = {(each.host, each.hypervisor_hostname): each for each in said}
    known = _rows_of_hosts(tx.connection, {host for host, _ in newest})
    added: list[dict[str, Any]] = []
    changed: list[dict[str, Any]] = []
    logged: list[str] = []
    for key, each in newest.items():
        row = known.get(key)
        said_of_itself: dict[str, Any] = {
            "host_ip": canonical_address(each.host_ip),
            "capabilities": capabilities_as_json(each.capabilities),
            "abilities": abilities_as_json(each.capabilities),
        }
        metrics = dict(each.metrics)
        if row is None:
            row = {"uuid": new_uuid(), "host": each.host, "hypervisor_hostname": each.hypervisor_hostname}
            row |= {"failed_builds": 0, "created_at": tx.now, "metrics": {}}
            added.append(row)
            logged.append(row["uuid"])
        elif any(row[name] != value for name, value in said_of_itself.items()):
            row = {**row, "updated_at": tx.now}
            changed.append(row)
            logged.append(row["uuid"])
        elif (row["metrics"] or {}) != metrics:
            row = {**row, "updated_at": tx.now}
            changed.append(row)
        if (row["metrics"] or {}) != metrics:
            tx.log("metrics", row["uuid"], metrics)
        row |= {**said_of_itself, "metrics": metrics}
        known[key] = row
    _INSERT.run(tx.connection, added)
    if changed:
        names = ("uuid", "host_ip", "capabilities", "abilities", "metrics", "updated_at")
        _CHANGE.run_each(tx.connection, [{f"new_{name}": row[name] for name in names} for row in changed])
    host_devices.report_all(tx, {known[key]["uuid"]: each.devices for key, each in newest.items()})
    nodes = {key: _node(known[key]) for key in newest}
    for node in nodes.values():
        if node.uuid in logged:
            tx.log("node", node.uuid, as_change(node))
    return [nodes[each.host, each.hypervisor_hostname] for each in said]


def _rows_of_hosts(connection: Connection, hosts: Collection[str]) -> dict[tuple[str, str], dict[str, Any]]:
    found: dict[tuple[str, str], dict[str, Any]] = {}
    names = sorted(hosts)
    for some in pieces(names):
        wanted = sa.select(t.compute_nodes).where(_NODE.host.in_(some))
        for row in connection.execute(wanted).mappings():
            found[row["host"], row["hypervisor_hostname"]] = dict(row)
    return found


def get(connection: Connection, uuid: str) -> ComputeNode:
    """Return a hypervisor. Raises: NotFound."""
    row = connection.execute(sa.select(t.compute_nodes).where(t.compute_nodes.c.uuid == uuid)).mappings().first()
    if row is None:
        raise NotFound(f"Compute host {uuid} could not be found.", uuid=uuid)
    return _node(row)


def get_by_id(connection: Connection, node_id: int) -> ComputeNode:
    """Return a hypervisor by its id. Raises: NotFound."""
    row = connection.execute(sa.select(t.compute_nodes).where(t.compute_nodes.c.id == node_id)).mappings().first()
    if row is None:
        raise NotFound(f"Compute host {node_id} could not be found.")
    return _node(row)


def find_capabilities(connection: Connection, host: str, node: str) -> Capabilities | None:
    """Return the capabilities of the hypervisor ``node`` of a service host; None if there is no such hypervisor."""
    for capabilities, abilities in _CAPABILITIES.rows(connection, host=host, node=node):
        return capabilities_from_json(capabilities, abilities)
    return None


def keys(connection: Connection) -> tuple[NodeKey, ...]:
    """Return the identifiers of every hypervisor, sorted by id, without reading the large columns."""
    node = t.compute_nodes.c
    rows = connection.execute(sa.select(node.id, node.uuid, node.host, node.hypervisor_hostname).order_by(node.id))
    return tuple([NodeKey(*row) for row in heeding(rows)])


def list_all(connection: Connection, uuids: Collection[str] | None = None) -> tuple[ComputeNode, ...]:
    """Return every hypervisor, or those of ``uuids``, sorted by id."""
    statement = sa.select(t.compute_nodes).order_by(t.compute_nodes.c.id)
    if uuids is not None:
        statement = statement.where(t.compute_nodes.c.uuid.in_(list(uuids)))
    rows = connection.execute(statement).mappings()
    return tuple(_node(row) for row in heeding(rows))


def list_by_host(connection: Connection, host: str) -> tuple[ComputeNode, ...]:
    """Return the hypervisors of one service host."""
    mine = sa.select(t.compute_nodes).where(t.compute_nodes.c.host == host).order_by(t.compute_nodes.c.id)
    return tuple(_node(row) for row in connection.execute(mine).mappings())


def list_by_hosts(connection: Connection, hosts: Collection[str]) -> dict[str, list[ComputeNode]]:
    """Return host → its hypervisors, sorted by id, for several service hosts."""
    found: dict[str, list[ComputeNode]] = {}
    for row in sorted(_rows_of_hosts(connection, hosts).values(), key=itemgetter("id")):
        found.setdefault(row["host"], []).append(_node(row))
    return found


def numbers(connection: Connection) -> dict[str, int]:
    """Return uuid → id of every hypervisor; clients before microversion 2.53 use the id."""
    return mapping(connection, sa.select(t.compute_nodes.c.uuid, t.compute_nodes.c.id))


def addresses(connection: Connection, hosts: Collection[str]) -> dict[tuple[str, str], str]:
    """Return (service host, hypervisor hostname) → IP address, for the hypervisors of these hosts."""
    node = t.compute_nodes.c
    wanted = sa.select(node.host, node.hypervisor_hostname, node.host_ip).where(node.host.in_(list(hosts)))
    return {(host, name): address for host, name, address in connection.execute(wanted)}


def usages(connection: Connection, uuids: Collection[str] | None = None) -> dict[str, NodeUsage]:
    """Return uuid → usage of every hypervisor, or of those of ``uuids``."""
    figures: dict[str, dict[str, int]] = {uuid: {} for uuid in (numbers(connection) if uuids is None else uuids)}
    inventory, provider = t.inventories.c, t.resource_providers.c
    totals = (
        sa.select(provider.uuid, t.resource_classes.c.name, inventory.total, inventory.reserved + inventory.used)
        .join_from(t.inventories, t.resource_providers, provider.id == inventory.resource_provider_id)
        .join(t.resource_classes, t.resource_classes.c.id == inventory.resource_class_id)
        .where(t.resource_classes.c.name.in_(list(_FIGURES)))
    )
    if uuids is not None:
        totals = totals.where(provider.uuid.in_(list(uuids)))
    for uuid, resource_class, total, used in heeding(connection.execute(totals)):
        if uuid in figures:
            name = _FIGURES[resource_class]
            figures[uuid] |= {name: total, f"{name}_used": used}
    node, instance = t.compute_nodes.c, t.instances.c
    busy = sa.case((instance.task_state.is_not(None), 1), else_=0)
    guests = (
        sa.select(node.uuid, sa.func.count(), sa.func.sum(busy))
        .join_from(
            t.compute_nodes,
            t.instances,
            (instance.host == node.host) & (instance.node == node.hypervisor_hostname) & instance.deleted.is_(False),
        )
        .group_by(node.uuid)
    )
    if uuids is not None:
        guests = guests.where(node.uuid.in_(list(uuids)))
    for uuid, instances, busy_instances in heeding(connection.execute(guests)):
        figures[uuid] |= {"instances": instances, "busy_instances": int(busy_instances)}
    return {uuid: NodeUsage(**values) for uuid, values in figures.items()}


def servers(
    connection: Connection, hosts: Collection[str] | None = None
) -> dict[tuple[str, str], list[tuple[str, str]]]:
    """Return (host, hypervisor hostname) → (uuid, name) of the servers there, for all hosts or only for ``hosts``."""
    instance = t.instances.c
    found: dict[tuple[str, str], list[tuple[str, str]]] = {}
    placed = sa.select(instance.host, instance.node, instance.uuid, instance.name).where(
        instance.deleted.is_(False), instance.host.is_not(None)
    )
    if hosts is not None:
        placed = placed.where(instance.host.in_(list(hosts)))
    for host, node, uuid, name in heeding(connection.execute(placed.order_by(instance.id))):
        found.setdefault((host, node or host), []).append((uuid, name))
    return found


def count_failed_build(tx: Transaction, uuid: str) -> None:
    """Add one to the number of consecutive failed builds of a node. Raises: NotFound."""
    table = t.compute_nodes
    tx.execute(sa.update(table).where(table.c.uuid == uuid).values(failed_builds=table.c.failed_builds + 1))
    _log(tx, uuid)


def reset_failed_builds(tx: Transaction, uuids: Collection[str]) -> None:
    """Set the number of failed builds of these nodes to 0, after a build succeeded. Writes only rows that change."""
    table = t.compute_nodes
    for (uuid,) in _FAILING.rows(tx.connection, uuids=list(uuids)):
        tx.execute(sa.update(table).where(table.c.uuid == uuid).values(failed_builds=0))
        _log(tx, uuid)


def delete_of_host(tx: Transaction, host: str) -> None:
    """Delete the hypervisors of a host with their providers. Raises: Conflict if a provider has allocations."""
    for node in list_by_host(tx.connection, host):
        if providers.find(tx.connection, node.uuid) is not None:
            providers.delete(tx, node.uuid)
        host_devices.delete(tx, node.uuid)
        tx.execute(sa.delete(t.compute_nodes).where(t.compute_nodes.c.uuid == node.uuid))
        tx.log("node", node.uuid, None)


def provider_ids(connection: Connection, host: str) -> tuple[int, ...]:
    """Return the ids of the providers of the hypervisors of ``host``."""
    nodes = sa.select(t.compute_nodes.c.uuid).where(t.compute_nodes.c.host == host)
    wanted = sa.select(t.resource_providers.c.id).where(t.resource_providers.c.uuid.in_(nodes))
    return tuple(connection.execute(wanted.order_by(t.resource_providers.c.id)).scalars())


def touch_provider(tx: Transaction, provider_id: int) -> None:
    """Increment a provider's generation after its traits or aggregates changed, and log the provider for mirrors."""
    providers.touch(tx, [provider_id])
    provider_states.log_stored(tx, [provider_id])


def capabilities_as_json(capabilities: Capabilities) -> dict[str, Any]:
    """Return capabilities, except for abilities, as JSON data. Equal capabilities give equal data."""
    value: dict[str, Any] = orjson.loads(
        orjson.dumps(
            {
                "hypervisor_type": capabilities.hypervisor_type,
                "hypervisor_version": capabilities.hypervisor_version,
                "supported_instances": [list(triple) for triple in capabilities.supported_instances],
                "cpu_info": dict(capabilities.cpu_info),
                "extra": dict(capabilities.extra),
            }
        )
    )
    return value


def abilities_as_json(capabilities: Capabilities) -> list[str] | None:
    """Return the stored form of the abilities, or None if the agent reports none."""
    return None if capabilities.abilities is None else list(capabilities.abilities)


def capabilities_from_json(value: Mapping[str, Any], abilities: Sequence[str] | None) -> Capabilities:
    """Parse the results of :func:`capabilities_as_json` and :func:`abilities_as_json`."""
    return Capabilities(
        hypervisor_type=value["hypervisor_type"],
        hypervisor_version=value["hypervisor_version"],
        supported_instances=tuple((arch, kind, mode) for arch, kind, mode in value["supported_instances"]),
        cpu_info=value["cpu_info"],
        extra=value["extra"],
        abilities=None if abilities is None else tuple(abilities),
    )


def capabilities_from_logged(value: LoggedCapabilities) -> Capabilities:
    """Return the capabilities of a logged hypervisor."""
    return Capabilities(
        value.hypervisor_type,
        value.hypervisor_version,
        tuple(value.supported_instances),
        value.cpu_info,
        value.extra,
        None if value.abilities is None else tuple(value.abilities),
    )


def as_change(node: ComputeNode) -> LoggedNode:
    """Return a hypervisor in the form of the change log."""
    capabilities = node.capabilities
    return LoggedNode(
        host=node.host,
        node=node.hypervisor_hostname,
        host_ip=node.host_ip,
        capabilities=LoggedCapabilities(
            capabilities.hypervisor_type,
            capabilities.hypervisor_version,
            capabilities.supported_instances,
            capabilities.cpu_info,
            capabilities.extra,
            capabilities.abilities,
        ),
        failed_builds=node.failed_builds,
    )


def _log(tx: Transaction, uuid: str) -> ComputeNode:
    node = get(tx.connection, uuid)
    tx.log("node", uuid, as_change(node))
    return node


def _node(row: Mapping[Any, Any]) -> ComputeNode:
    apart = {"id", "capabilities", "abilities", "metrics"}
    fields = {name: value for name, value in row.items() if name not in apart}
    capabilities = capabilities_from_json(row["capabilities"], row["abilities"])
    return ComputeNode(**fields, capabilities=capabilities, metrics=row["metrics"] or {})
