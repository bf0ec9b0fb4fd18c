# SPDX-License-Identifier: Apache-2.0
"""Snapshot of all mirrored data, as changes, so that mirrors load it with the same code that applies the change log."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from itertools import groupby
from operator import itemgetter
from typing import Any

import orjson
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from kilonova.db import host_devices, isolation_guard, server_migrations
from kilonova.db.change_log.changes import (
    Change,
    LoggedAgents,
    LoggedAggregate,
    LoggedGroup,
    LoggedInstance,
    LoggedNode,
    LoggedProcess,
    LoggedProvider,
    LoggedService,
    capabilities_from_text,
)
from kilonova.db.core import tables as t
from kilonova.db.core.clock import epoch_of
from kilonova.db.core.statements import mapping
from kilonova.db.database import Database
from kilonova.db.server_migrations import OtherSide
from kilonova.model.host import COMPUTE
from kilonova.model.instance import is_io_heavy
from kilonova.records import dataclass

#: Rows per fetch; more would not be faster and would fragment the memory.
_FETCHED_TOGETHER = 2_000


@dataclass(frozen=True, slots=True)
class Loaded:
    """The state after commit ``seq``. ``changes``: a lazy iterator that reads within the same transaction."""

    seq: int
    changes: Iterator[Change]


@contextmanager
def load(database: Database) -> Iterator[Loaded]:
    """Return a context manager for the present state. Its seq and its changes belong to the same snapshot."""
    with database.read(patient=True) as connection:
        yield loaded_in(connection)
        if database.is_sqlite:  # release SQLite's page cache, which now holds the whole database
            connection.exec_driver_sql("PRAGMA shrink_memory")


def loaded_in(connection: Connection) -> Loaded:
    """Return the state that a read transaction sees."""
    return Loaded(seq_in(connection), _everything(connection))


def seq_in(connection: Connection) -> int:
    """Return the number of the last commit that a read transaction sees."""
    return connection.execute(sa.select(t.change_counter.c.seq)).scalar() or 0


def _everything(connection: Connection) -> Iterator[Change]:
    # Host names and uuids occur in several tables, and once per server, so they are interned to save memory.
    names = _Names()
    yield from _providers(connection, names)
    yield from _services(connection, names)
    yield from _processes(connection, names)
    yield from _nodes(connection, names)
    yield from _devices(connection, names)
    yield from _aggregates(connection)
    yield from _groups(connection)
    yield from _instances(connection, names)


class _Names(dict[str, str]):
    """Intern table of strings: text → the shared string."""

    def __missing__(self, name: str) -> str:
        self[name] = name
        return name


def _rows(connection: Connection, statement: sa.Select[Any]) -> Iterator[Any]:
    """Yield the rows of a large result, fetched in chunks, which takes a fifth of the time of single fetches."""
    for chunk in connection.execute(statement).partitions(_FETCHED_TOGETHER):
        yield from chunk


def epoch(moment: datetime | None) -> float | None:
    """Return a time as epoch seconds."""
    return None if moment is None else epoch_of(moment)


def _providers(connection: Connection, names: _Names) -> Iterator[Change]:
    """Yield providers by id, merged with streams of their inventories, traits and aggregates.

    This keeps few rows in memory at a time and avoids fragmentation.
    """
    traits = _InStep(_traits(connection))
    member, link = t.resource_provider_aggregates.c, t.placement_aggregates.c
    joined = sa.select(member.resource_provider_id, link.uuid).join(
        t.placement_aggregates, link.id == member.aggregate_id
    )
    aggregates = _InStep(_rows(connection, joined.order_by(member.resource_provider_id)))
    classes = mapping(connection, sa.select(t.resource_classes.c.id, t.resource_classes.c.name))
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
    everything = sa.select(inventory.resource_provider_id, inventory.resource_class_id, *columns)
    inventories = _InStep(_rows(connection, everything.order_by(inventory.resource_provider_id)))
    provider = t.resource_providers.c
    root, parent = t.resource_providers.alias(), t.resource_providers.alias()
    found = (
        sa.select(provider.id, provider.uuid, provider.name, provider.generation, root.c.uuid, parent.c.uuid)
        .outerjoin(root, root.c.id == provider.root_provider_id)
        .outerjoin(parent, parent.c.id == provider.parent_provider_id)
        .order_by(provider.id)
    )
    for provider_id, uuid, name, generation, root_uuid, parent_uuid in _rows(connection, found):
        yield Change(
            "provider",
            names[uuid],
            LoggedProvider(
                id=provider_id,
                name=names[name],
                generation=generation,
                root=names[root_uuid or uuid],
                parent=None if parent_uuid is None else names[parent_uuid],
                inventories={classes[row[1]]: tuple(row[2:]) for row in inventories.of(provider_id)},
                traits=next((listed for _, listed in traits.of(provider_id)), ()),
                aggregates=[aggregate for _, aggregate in aggregates.of(provider_id)],
            ),
        )


class _InStep:
    """Merge join over rows sorted by their first column; keys must be requested in ascending order."""

    def __init__(self, rows: Iterator[Any]) -> None:
        self._rows = rows
        self._next = next(rows, None)

    def of(self, key: int) -> Iterator[Any]:
        """Yield the rows whose first column is ``key``; rows with smaller keys are skipped."""
        row = self._next
        while row is not None and row[0] <= key:
            if row[0] == key:
                yield row
            row = self._next = next(self._rows, None)


def _traits(connection: Connection) -> Iterator[tuple[int, tuple[str, ...]]]:
    """Yield provider id and trait names. Providers with the same traits share one tuple."""
    link = t.resource_provider_traits.c
    names = {str(row.id): row.name for row in connection.execute(sa.select(t.traits.c.id, t.traits.c.name))}
    if connection.dialect.name == "postgresql":
        numbers: sa.ColumnElement[str] = sa.func.string_agg(sa.cast(link.trait_id, sa.Text), ",")
    else:
        numbers = sa.func.group_concat(link.trait_id)
    # the default maximum length of group_concat truncates long lists
    if connection.dialect.name in {"mysql", "mariadb"}:
        connection.exec_driver_sql("SET SESSION group_concat_max_len = 1048576")
    sets: dict[str, tuple[str, ...]] = {}
    listings = sa.select(link.resource_provider_id, numbers).group_by(link.resource_provider_id)
    for provider_id, listed in _rows(connection, listings.order_by(link.resource_provider_id)):
        traits = sets.get(listed)
        if traits is None:
            traits = sets[listed] = tuple(names[number] for number in listed.split(","))
        yield provider_id, traits


def _services(connection: Connection, names: _Names) -> Iterator[Change]:
    service = t.services.c
    columns = (
        service.host,
        service.disabled,
        service.disabled_reason,
        sa.or_(service.forced_down, sa.func.coalesce(service.declared_down, sa.false())),
        service.created_at,
    )
    computes = sa.select(*columns).where(service.binary == COMPUTE)
    for host, disabled, reason, forced_down, created_at in _rows(connection, computes):
        yield Change("service", names[host], LoggedService(disabled, reason, forced_down, epoch(created_at)))


def _processes(connection: Connection, names: _Names) -> Iterator[Change]:
    process, agent = t.processes.c, t.host_agents.c
    for uuid, up, last_seen_at in connection.execute(sa.select(process.uuid, process.up, process.last_seen_at)):
        yield Change("process", uuid, LoggedProcess(None if up else epoch_of(last_seen_at)))
    listed = _rows(connection, sa.select(agent.process, agent.host).order_by(agent.process))
    for uuid, rows in groupby(listed, key=itemgetter(0)):
        yield Change("agents", uuid, LoggedAgents([names[host] for _, host in rows]))


def _nodes(connection: Connection, names: _Names) -> Iterator[Change]:
    node = t.compute_nodes.c
    # Read as text, so that equal capabilities of nodes are parsed once.
    columns = (
        node.uuid,
        node.host,
        node.hypervisor_hostname,
        node.host_ip,
        sa.cast(node.capabilities, sa.Text),
        sa.cast(node.abilities, sa.Text),
        node.failed_builds,
        node.metrics,
    )
    known: dict[tuple[str, str | None], Any] = {}
    for uuid, host, name, host_ip, text, abilities, failed_builds, metrics in _rows(connection, sa.select(*columns)):
        capabilities = known.get((text, abilities))
        if capabilities is None:
            capabilities = known[text, abilities] = capabilities_from_text(text, abilities)
        value = LoggedNode(names[host], names[name], names[host_ip], capabilities, failed_builds)
        yield Change("node", names[uuid], value)
        if metrics:
            yield Change("metrics", names[uuid], metrics)


def _devices(connection: Connection, names: _Names) -> Iterator[Change]:
    for uuid, value in host_devices.list_logged(connection).items():
        yield Change("devices", names[uuid], value)


def _aggregates(connection: Connection) -> Iterator[Change]:
    hosts: dict[int, list[str]] = defaultdict(list)
    for aggregate_id, host in connection.execute(
        sa.select(t.aggregate_hosts.c.aggregate_id, t.aggregate_hosts.c.host).order_by(t.aggregate_hosts.c.id)
    ):
        hosts[aggregate_id].append(host)
    metadata: dict[int, dict[str, str]] = defaultdict(dict)
    for aggregate_id, key, value in connection.execute(sa.select(t.aggregate_metadata)):
        metadata[aggregate_id][key] = value
    yield Change("isolation", "version", isolation_guard.version(connection))
    for row in connection.execute(sa.select(t.aggregates).order_by(t.aggregates.c.id)):
        value = LoggedAggregate(row.uuid, row.name, hosts[row.id], metadata[row.id])
        yield Change("aggregate", str(row.id), value)


def _groups(connection: Connection) -> Iterator[Change]:
    hosts: dict[int, dict[str, int]] = defaultdict(dict)
    for group_id, host, members in connection.execute(sa.select(t.server_group_hosts)):
        if members:
            hosts[group_id][host] = members
    for row in connection.execute(sa.select(t.server_groups)):
        value = LoggedGroup(row.policy, row.max_server_per_host, row.host, hosts[row.id])
        yield Change("group", row.uuid, value)


def _instances(connection: Connection, names: _Names) -> Iterator[Change]:
    instance = t.instances.c
    columns = (
        instance.uuid,
        instance.host,
        instance.node,
        instance.vm_state,
        instance.task_state,
        instance.flavor_id,
        # Read as text, so that equal image properties are parsed once.
        sa.cast(instance.image_properties, sa.Text),
    )
    placed = sa.select(*columns).where(instance.deleted.is_(False), instance.host.is_not(None))
    known: dict[str | None, Any] = {None: {}}
    for uuid, host, node, vm_state, task_state, flavor_id, text in _rows(connection, placed):
        properties = known.get(text)
        if properties is None:
            properties = known[text] = orjson.loads(text) or {}
        states = vm_state, task_state
        value = instance_value(names[host], names[node or host], *states, names[flavor_id], properties)
        yield Change("instance", uuid, value)
    for side in server_migrations.other_sides(connection):
        yield Change("instance", side.migration.uuid, other_side_value(side))


def other_side_value(side: OtherSide) -> LoggedInstance:
    """Return the change-log value for the second host of a moving server. Key: uuid of the migration.

    The second host is the one where the server is not recorded. The server is counted on both hosts, but its I/O
    operations are counted on the recorded host only.
    """
    return LoggedInstance(side.host, side.node, False, side.flavor.flavor_id, side.image_properties)


def instance_value(
    host: str,
    node: str | None,
    vm_state: str,
    task_state: str | None,
    flavor_id: str,
    image_properties: Mapping[str, str],
) -> LoggedInstance:
    """Return the change log's value of an instance that is on a host."""
    return LoggedInstance(host, node or host, is_io_heavy(vm_state, task_state), flavor_id, image_properties)
