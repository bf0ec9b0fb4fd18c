# SPDX-License-Identifier: Apache-2.0
"""Host aggregates, and their copies in Placement as provider aggregates.

A host is in any number of aggregates but in at most one availability zone. A change that would break this rule, or
move existing servers into another zone, raises Conflict if it adds or removes a host, and InvalidRequest if it changes
the zone of an aggregate.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from kilonova.db import compute_nodes, isolation_guard, server_migrations
from kilonova.db.change_log.changes import LoggedAggregate
from kilonova.db.core import tables as t
from kilonova.db.core.prepared import Prepared
from kilonova.db.core.statements import insert_missing, pieces
from kilonova.db.core.transaction import Transaction
from kilonova.deadline import heeding
from kilonova.errors import Conflict, InvalidRequest, NotFound
from kilonova.identifiers import new_uuid
from kilonova.model.aggregate import ZONE_KEY, Aggregate
from kilonova.model.host import COMPUTE
from kilonova.scheduler.isolation_rules import is_rule_key

_ZONES = (
    sa.select(t.aggregate_hosts.c.host, t.aggregate_hosts.c.aggregate_id, t.aggregate_metadata.c.value)
    .join(
        t.aggregate_metadata,
        (t.aggregate_metadata.c.aggregate_id == t.aggregate_hosts.c.aggregate_id)
        & (t.aggregate_metadata.c.key == sa.literal(ZONE_KEY)),
    )
    .order_by(t.aggregate_hosts.c.id)
)
_ZONES_OF_HOSTS = Prepared(_ZONES.where(t.aggregate_hosts.c.host.in_(sa.bindparam("hosts", expanding=True))))

# --- reading ----------------------------------------------------------------------------------------------------------


def list_all(connection: Connection) -> tuple[Aggregate, ...]:
    """Return every aggregate in the order of creation."""
    return _read(connection, None)


def get(connection: Connection, aggregate_id: int) -> Aggregate:
    """Return an aggregate. Raises: NotFound."""
    found = _read(connection, aggregate_id)
    if not found:
        raise NotFound(f"Aggregate {aggregate_id} could not be found.", aggregate_id=aggregate_id)
    return found[0]


def zones_of_hosts(connection: Connection, hosts: Collection[str] | None = None) -> dict[str, str]:
    """Return host → availability zone, for hosts that are in a zone. ``hosts``: return only these hosts; None: all."""
    return {host: zone for host, (_, zone) in _zones(connection, hosts=hosts).items()}


def zone_of_host(connection: Connection, host: str) -> str | None:
    """Return the availability zone of a host, or None if it is in no zone."""
    return zones_of_hosts(connection, [host]).get(host)


def hosts_in_zones(zone: str | None = None) -> sa.Select[tuple[str]]:
    """Return a SELECT of the hosts in availability zone ``zone``; if it is None, of all hosts in any zone."""
    member, data = t.aggregate_hosts.c, t.aggregate_metadata.c
    named = sa.select(member.host).join(t.aggregate_metadata, data.aggregate_id == member.aggregate_id)
    return named.where(data.key == ZONE_KEY, *([] if zone is None else [data.value == zone]))


# --- writing ----------------------------------------------------------------------------------------------------------


def create(tx: Transaction, name: str, zone: str | None = None) -> Aggregate:
    """Store a new aggregate without hosts. Raises: Conflict if an aggregate has that name."""
    row = {"uuid": new_uuid(), "name": name, "created_at": tx.now}
    if not insert_missing(tx, t.aggregates, row):
        raise Conflict(f"Aggregate {name} already exists.", name=name)
    aggregate_id: int = tx.execute(sa.select(t.aggregates.c.id).where(t.aggregates.c.uuid == row["uuid"])).scalar_one()
    if zone is not None:
        tx.execute(sa.insert(t.aggregate_metadata), {"aggregate_id": aggregate_id, "key": ZONE_KEY, "value": zone})
    return _log(tx, aggregate_id)


def update(tx: Transaction, aggregate_id: int, *, name: str | None = None, zone: str | None = None) -> Aggregate:
    """Change the name and/or the availability zone of an aggregate. None leaves a value unchanged.

    Raises: NotFound; Conflict if another aggregate has that name; InvalidRequest if a host of the aggregate is in
    another zone already, or has servers whose zone would change.
    """
    aggregate = get(tx.connection, aggregate_id)
    values: dict[str, Any] = {"updated_at": tx.now}
    if name is not None and name != aggregate.name:
        _require_free_name(tx, name)
        values["name"] = name
    tx.execute(sa.update(t.aggregates).where(t.aggregates.c.id == aggregate_id).values(values))
    if zone is not None:
        _set_zone(tx, aggregate, zone)
    return _log(tx, aggregate_id)


def set_metadata(tx: Transaction, aggregate_id: int, metadata: Mapping[str, str | None]) -> Aggregate:
    """Merge ``metadata`` into the metadata of an aggregate; a value of None removes its key.

    Raises: NotFound; InvalidRequest if a host of the aggregate is in another zone already, or has servers whose zone
    would change; InvalidRequest for an empty zone, because a zone, once set, can only be renamed.
    """
    aggregate = get(tx.connection, aggregate_id)
    rest = dict(metadata)
    if ZONE_KEY in rest:
        zone = rest.pop(ZONE_KEY)
        if not zone:
            raise InvalidRequest(f"Aggregate {aggregate.name} does not support an empty {ZONE_KEY}.", field=ZONE_KEY)
        _set_zone(tx, aggregate, zone)
    for key, value in rest.items():
        _put(tx, aggregate_id, key, value)
    _note_rules(tx, rest)
    return _log(tx, aggregate_id)


def add_host(tx: Transaction, aggregate_id: int, host: str, *, default_zone: str) -> Aggregate:
    """Add a host to an aggregate, and the host's providers to the Placement aggregate with the same uuid.

    Raises: NotFound for the aggregate or the host; Conflict if the host is a member already, if the host would be in
    two zones, or if the servers of the host would change their zone.
    """
    _require_host(tx, host)
    aggregate = get(tx.connection, aggregate_id)
    if host in aggregate.hosts:
        raise Conflict(f"Aggregate {aggregate_id} already has host {host}.", host=host)
    zone = aggregate.availability_zone
    if zone is not None:
        present = _zones(tx.connection, without=aggregate_id).get(host)
        if present is not None and present[1] != zone:
            raise Conflict(f"Cannot add host {host} to aggregate {aggregate_id}: it is already in zone {present[1]}.")
        if present is None and zone != default_zone and _has_instances(tx, host):
            raise Conflict(
                f"Cannot add host {host} to aggregate {aggregate_id}: its instances would move from availability zone"
                f" {default_zone} to {zone}."
            )
    tx.execute(sa.insert(t.aggregate_hosts), {"aggregate_id": aggregate_id, "host": host})
    _note_rules(tx, aggregate.metadata)
    for provider_id in compute_nodes.provider_ids(tx.connection, host):
        _join_in_placement(tx, provider_id, aggregate.uuid)
    return _log(tx, aggregate_id)


def remove_host(tx: Transaction, aggregate_id: int, host: str, *, default_zone: str) -> Aggregate:
    """Remove a host from an aggregate, and the host's providers from the Placement aggregate with the same uuid.

    Raises: NotFound if there is no such aggregate, or if the host is not in it; Conflict if servers of the host would
    change their zone.
    """
    aggregate = get(tx.connection, aggregate_id)
    if host not in aggregate.hosts:
        raise NotFound(f"Aggregate {aggregate_id} has no host {host}.", host=host)
    zone = aggregate.availability_zone
    if zone not in {None, default_zone}:
        elsewhere = _zones(tx.connection, without=aggregate_id)
        if host not in elsewhere and _has_instances(tx, host):
            raise Conflict(
                f"Cannot remove host {host} from aggregate {aggregate_id}: its instances would move from availability"
                f" zone {zone} to {default_zone}."
            )
    _leave(tx, aggregate, host)
    return _log(tx, aggregate_id)


def delete(tx: Transaction, aggregate_id: int) -> None:
    """Delete an aggregate. Raises: NotFound; InvalidRequest if it has hosts."""
    aggregate = get(tx.connection, aggregate_id)
    if aggregate.hosts:
        raise InvalidRequest(f"Cannot remove aggregate {aggregate_id}: host aggregate is not empty.")
    tx.execute(sa.delete(t.aggregate_metadata).where(t.aggregate_metadata.c.aggregate_id == aggregate_id))
    tx.execute(sa.delete(t.aggregates).where(t.aggregates.c.id == aggregate_id))
    _note_rules(tx, aggregate.metadata)
    tx.log("aggregate", str(aggregate_id), None)


def forget_host(tx: Transaction, host: str) -> None:
    """Remove a host that is being deleted from every aggregate."""
    for aggregate in list_all(tx.connection):
        if host in aggregate.hosts:
            _leave(tx, aggregate, host)
            _log(tx, aggregate.id)


def members_among(connection: Connection, hosts: Collection[str]) -> tuple[str, ...]:
    """Return the hosts among ``hosts`` that are in at least one aggregate, sorted by name."""
    names = sorted(hosts)
    found: set[str] = set()
    for some in pieces(names):
        members = sa.select(t.aggregate_hosts.c.host).where(t.aggregate_hosts.c.host.in_(some))
        found.update(connection.execute(members).scalars())
    return tuple(sorted(found))


def mirror_into_placement(tx: Transaction, host: str) -> None:
    """Add the providers of ``host`` to the Placement aggregates with the uuids of the host's aggregates. Idempotent.

    To be called again whenever the host gets new providers.
    """
    members = sa.select(t.aggregates.c.uuid).join(
        t.aggregate_hosts, t.aggregate_hosts.c.aggregate_id == t.aggregates.c.id
    )
    uuids = tx.execute(members.where(t.aggregate_hosts.c.host == host)).scalars().all()
    for provider_id in compute_nodes.provider_ids(tx.connection, host):
        for uuid in uuids:
            _join_in_placement(tx, provider_id, uuid)


def mirror_exactly(tx: Transaction, host: str) -> None:
    """Make the Placement aggregates of the providers of ``host`` match the host aggregates of ``host``.

    Placement aggregates that are not host aggregates stay unchanged.
    """
    mirror_into_placement(tx, host)
    for aggregate in list_all(tx.connection):
        if host not in aggregate.hosts:
            _leave_in_placement(tx, aggregate.uuid, host)


def _note_rules(tx: Transaction, keys: Collection[str]) -> None:
    """Increment the version of the isolation rules if one of ``keys`` is the key of the zone or of an isolation rule.

    Called when metadata with these keys changes, or when the hosts of an aggregate with such metadata change. Claims
    whose decision used an earlier version then fail, and the decision is repeated.
    """
    if any(key == ZONE_KEY or is_rule_key(key) for key in keys):
        isolation_guard.rise(tx)


# --- zones ------------------------------------------------------------------------------------------------------------


def _set_zone(tx: Transaction, aggregate: Aggregate, zone: str) -> None:
    elsewhere = _zones(tx.connection, without=aggregate.id)
    others = sorted({elsewhere[host][1] for host in aggregate.hosts if host in elsewhere} - {zone})
    if others:
        raise InvalidRequest(
            f"One or more hosts of aggregate {aggregate.id} are already in zone(s) {', '.join(others)}."
        )
    if zone != aggregate.availability_zone and any(_has_instances(tx, host) for host in aggregate.hosts):
        raise InvalidRequest(
            f"One or more hosts of aggregate {aggregate.id} contain instances: its zone cannot change."
        )
    if zone != aggregate.availability_zone:
        _put(tx, aggregate.id, ZONE_KEY, zone)
        _note_rules(tx, [ZONE_KEY] if aggregate.hosts else ())


def _zones(
    connection: Connection, *, without: int | None = None, hosts: Collection[str] | None = None
) -> dict[str, tuple[int, str]]:
    """Return host → (aggregate id, zone) for all hosts, or only for ``hosts``; leave out the aggregate ``without``."""
    rows: Iterable[Any]
    rows = connection.execute(_ZONES) if hosts is None else _ZONES_OF_HOSTS.rows(connection, hosts=list(hosts))
    found = heeding(rows)
    return {host: (key, zone) for host, key, zone in found if key != without}


def _has_instances(tx: Transaction, host: str) -> bool:
    """Return whether a host has servers, or open server migrations to or from it."""
    there = sa.select(t.instances.c.id).where(t.instances.c.host == host, t.instances.c.deleted.is_(False))
    return tx.execute(there.limit(1)).first() is not None or server_migrations.open_at(tx.connection, host)


# --- rows -------------------------------------------------------------------------------------------------------------


def _read(connection: Connection, aggregate_id: int | None) -> tuple[Aggregate, ...]:
    """Return the aggregate with the id ``aggregate_id``, if it exists; with the id None, return all aggregates."""
    rows = sa.select(t.aggregates).order_by(t.aggregates.c.id)
    members = sa.select(t.aggregate_hosts.c.aggregate_id, t.aggregate_hosts.c.host).order_by(t.aggregate_hosts.c.id)
    pairs = sa.select(t.aggregate_metadata).order_by(t.aggregate_metadata.c.key)
    if aggregate_id is not None:
        rows = rows.where(t.aggregates.c.id == aggregate_id)
        members = members.where(t.aggregate_hosts.c.aggregate_id == aggregate_id)
        pairs = pairs.where(t.aggregate_metadata.c.aggregate_id == aggregate_id)
    hosts: dict[int, list[str]] = defaultdict(list)
    for owner, host in heeding(connection.execute(members)):
        hosts[owner].append(host)
    metadata: dict[int, dict[str, str]] = defaultdict(dict)
    for owner, key, value in heeding(connection.execute(pairs)):
        metadata[owner][key] = value
    return tuple(
        Aggregate(**row, hosts=tuple(hosts[row["id"]]), metadata=metadata[row["id"]])
        for row in heeding(connection.execute(rows).mappings())
    )


def _require_free_name(tx: Transaction, name: str) -> None:
    if tx.execute(sa.select(t.aggregates.c.id).where(t.aggregates.c.name == name)).first() is not None:
        raise Conflict(f"Aggregate {name} already exists.", name=name)


def _require_host(tx: Transaction, host: str) -> None:
    service = sa.select(t.services.c.id).where(t.services.c.host == host, t.services.c.binary == COMPUTE)
    if tx.execute(service).first() is None:
        raise NotFound(f"Compute host {host} could not be found.", host=host)


def _put(tx: Transaction, aggregate_id: int, key: str, value: str | None) -> None:
    table = t.aggregate_metadata
    tx.execute(sa.delete(table).where(table.c.aggregate_id == aggregate_id, table.c.key == key))
    if value is not None:
        tx.execute(sa.insert(table), {"aggregate_id": aggregate_id, "key": key, "value": value})


def _leave(tx: Transaction, aggregate: Aggregate, host: str) -> None:
    table = t.aggregate_hosts
    tx.execute(sa.delete(table).where(table.c.aggregate_id == aggregate.id, table.c.host == host))
    _note_rules(tx, aggregate.metadata)
    _leave_in_placement(tx, aggregate.uuid, host)


def _leave_in_placement(tx: Transaction, aggregate_uuid: str, host: str) -> None:
    link = t.resource_provider_aggregates
    ours = sa.select(t.placement_aggregates.c.id).where(t.placement_aggregates.c.uuid == aggregate_uuid)
    for provider_id in compute_nodes.provider_ids(tx.connection, host):
        gone = sa.delete(link).where(link.c.resource_provider_id == provider_id, link.c.aggregate_id.in_(ours))
        if tx.execute(gone).rowcount:
            compute_nodes.touch_provider(tx, provider_id)


def _join_in_placement(tx: Transaction, provider_id: int, aggregate_uuid: str) -> None:
    groups, links = t.placement_aggregates, t.resource_provider_aggregates
    insert_missing(tx, groups, {"uuid": aggregate_uuid})
    group_id = tx.execute(sa.select(groups.c.id).where(groups.c.uuid == aggregate_uuid)).scalar_one()
    if insert_missing(tx, links, {"resource_provider_id": provider_id, "aggregate_id": group_id}):
        compute_nodes.touch_provider(tx, provider_id)


def _log(tx: Transaction, aggregate_id: int) -> Aggregate:
    aggregate = get(tx.connection, aggregate_id)
    value = LoggedAggregate(aggregate.uuid, aggregate.name, aggregate.hosts, dict(aggregate.metadata))
    tx.log("aggregate", str(aggregate_id), value)
    return aggregate
