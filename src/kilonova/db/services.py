# SPDX-License-Identifier: Apache-2.0
"""Services by host: their rows, and the state that operators set (disabled, forced down)."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from kilonova.db import aggregates, compute_nodes, host_agents, moves, node_reports, server_migrations
from kilonova.db.change_log.changes import LoggedService
from kilonova.db.core import tables as t
from kilonova.db.core.prepared import Prepared
from kilonova.db.core.statements import insert_many, pieces
from kilonova.db.core.transaction import Transaction
from kilonova.db.mirror_source import epoch
from kilonova.deadline import heeding
from kilonova.errors import Conflict, InvalidRequest, NotFound
from kilonova.identifiers import new_uuid
from kilonova.model.host import COMPUTE, Service

_P = t.processes.c
_ADD = insert_many(
    t.services,
    {"uuid": "uuid", "host": "host"},
    binary=sa.bindparam("binary", type_=t.services.c.binary.type),
    disabled=sa.false(),
    forced_down=sa.false(),
    created_at=sa.bindparam("now", type_=t.Time),
)
#: Query for services, with the state of the processes that run the agents of hosts. :func:`_read` adds the state of
#: control processes.
_WITH_PROCESS = sa.select(t.services, _P.up, _P.last_seen_at).select_from(
    t.services.outerjoin(
        t.host_agents, sa.and_(t.host_agents.c.host == t.services.c.host, t.services.c.binary == COMPUTE)
    ).outerjoin(t.processes, _P.uuid == t.host_agents.c.process)
)
_COMPUTES_OF = Prepared(
    _WITH_PROCESS.where(t.services.c.host.in_(sa.bindparam("hosts", expanding=True)), t.services.c.binary == COMPUTE)
)
_AT_HOST = Prepared(
    _WITH_PROCESS.where(t.services.c.host == sa.bindparam("of"), t.services.c.binary == sa.bindparam("kind"))
)
_COLUMNS = tuple(_WITH_PROCESS.selected_columns.keys())


class _Unset:
    """Type of UNSET, the default of a parameter for which None is a value."""


UNSET: Final = _Unset()


def ensure(tx: Transaction, host: str, binary: str) -> Service:
    """Return the service of ``binary`` on ``host``; create it, enabled, if missing. An existing one stays unchanged."""
    return ensure_all(tx, [host], binary)[host]


def ensure_all(tx: Transaction, hosts: Collection[str], binary: str) -> dict[str, Service]:
    """Return host → service of ``binary``; create missing services, enabled. Existing services stay unchanged."""
    found = _by_host(tx.connection, hosts, binary)
    missing = sorted(set(hosts) - found.keys())
    if missing:
        _ADD.run(tx, [{"uuid": new_uuid(), "host": host} for host in missing], binary=binary, now=tx.now)
        added = _by_host(tx.connection, missing, binary)
        for service in added.values():
            _log(tx, service)
        found |= added
    return found


def _by_host(connection: Connection, hosts: Collection[str], binary: str) -> dict[str, Service]:
    found: dict[str, Service] = {}
    names = sorted(set(hosts))
    for some in pieces(names):
        wanted = _WITH_PROCESS.where(t.services.c.host.in_(some), t.services.c.binary == binary)
        found |= {service.host: service for service in _read(connection, wanted)}
    return found


def get(connection: Connection, uuid: str) -> Service:
    """Return a service by its uuid. Raises: NotFound."""
    return _one(connection, t.services.c.uuid == uuid, f"Service {uuid} could not be found.")


def get_by_id(connection: Connection, service_id: int) -> Service:
    """Return a service by its id. Raises: NotFound."""
    return _one(connection, t.services.c.id == service_id, f"Service {service_id} could not be found.")


def get_by_host(connection: Connection, host: str, binary: str = COMPUTE) -> Service:
    """Return the service of ``binary`` on ``host``. Raises: NotFound."""
    found = find_by_host(connection, host, binary)
    if found is None:
        raise NotFound(f"Host '{host}' with binary {binary} could not be found.", host=host, binary=binary)
    return found


def find_by_host(connection: Connection, host: str, binary: str = COMPUTE) -> Service | None:
    """Return the service of ``binary`` on ``host``, or None."""
    rows = _AT_HOST.rows(connection, of=host, kind=binary)
    found = _services(connection, [dict(zip(_COLUMNS, row, strict=True)) for row in rows])
    return found[0] if found else None


def computes_of(connection: Connection, hosts: Collection[str]) -> dict[str, Service]:
    """Return host → compute service, for the hosts among ``hosts`` that have one."""
    rows = _COMPUTES_OF.rows(connection, hosts=list(hosts))
    found = _services(connection, [dict(zip(_COLUMNS, row, strict=True)) for row in heeding(rows)])
    return {service.host: service for service in found}


def list_all(
    connection: Connection,
    *,
    host: str | None = None,
    hosts: Collection[str] | None = None,
    binary: str | None = None,
) -> tuple[Service, ...]:
    """Return services sorted by id, optionally only those of ``host``, ``hosts`` or ``binary``."""
    statement = _WITH_PROCESS.order_by(t.services.c.id)
    if host is not None:
        statement = statement.where(t.services.c.host == host)
    if hosts is not None:
        statement = statement.where(t.services.c.host.in_(list(hosts)))
    if binary is not None:
        statement = statement.where(t.services.c.binary == binary)
    return _read(connection, statement)


def update(
    tx: Transaction,
    uuid: str,
    *,
    disabled: bool | None = None,
    reason: str | _Unset | None = UNSET,
    forced_down: bool | None = None,
) -> Service:
    """Enable or disable a service, or set ``forced_down``. Parameters that are not given stay unchanged.

    Disabling a nova-compute adds the trait COMPUTE_STATUS_DISABLED to its providers, enabling removes it.
    Raises: NotFound; InvalidRequest if ``forced_down`` is cleared while the host still has guests of evacuated servers.
    """
    service = get(tx.connection, uuid)
    if forced_down is False and service.forced_down and server_migrations.evacuated_from(tx.connection, [service.host]):
        raise InvalidRequest(
            f"Host {service.host} stays down: it has guests of servers that were evacuated. Its agent removes them when"
            " it starts.",
            field="forced_down",
        )
    values: dict[str, Any] = {"updated_at": tx.now}
    if disabled is not None:
        values["disabled"] = disabled
    if not isinstance(reason, _Unset):
        values["disabled_reason"] = reason
    if forced_down is not None:
        values["forced_down"] = forced_down
    tx.execute(sa.update(t.services).where(t.services.c.id == service.id).values(values))
    changed = get(tx.connection, uuid)
    _log(tx, changed)
    if service.binary == COMPUTE and changed.disabled != service.disabled:
        mark_providers(tx, service.host, disabled=changed.disabled)
    return changed


def declaration_changes(connection: Connection, down: Collection[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the hosts to declare down, and those to declare up again, if exactly ``down`` are to be declared down.

    A host with guests of evacuated servers stays down until its agent has removed them.
    """
    table = t.services.c
    declared_now = sa.select(table.host).where(table.binary == COMPUTE, table.declared_down.is_(True))
    before = set(connection.execute(declared_now).scalars())
    came = sorted(before.difference(down))
    kept = {evacuation.source_host for evacuation in server_migrations.evacuated_from(connection, came)}
    gone: list[str] = []
    for some in pieces(sorted(set(down) - before)):
        gone += connection.execute(sa.select(table.host).where(table.binary == COMPUTE, table.host.in_(some))).scalars()
    return tuple(sorted(gone)), tuple(host for host in came if host not in kept)


def declare_down(tx: Transaction, down: Collection[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Declare exactly the hosts ``down`` as down. Returns as :func:`declaration_changes`."""
    gone, back = declaration_changes(tx.connection, down)
    table = t.services.c
    for hosts, is_down in ((gone, True), (back, None)):
        for some in pieces(hosts):
            named = sa.and_(table.binary == COMPUTE, table.host.in_(some))
            tx.execute(sa.update(t.services).where(named).values(declared_down=is_down))
            for service in computes_of(tx.connection, some).values():
                _log(tx, service)
    return gone, back


def mark_providers(tx: Transaction, host: str, *, disabled: bool) -> None:
    """Add COMPUTE_STATUS_DISABLED to the providers of ``host``, or remove it if not ``disabled``. Idempotent."""
    trait_id = tx.execute(sa.select(t.traits.c.id).where(t.traits.c.name == node_reports.STATUS_DISABLED)).scalar_one()
    table = t.resource_provider_traits
    for provider_id in compute_nodes.provider_ids(tx.connection, host):
        mine = sa.and_(table.c.resource_provider_id == provider_id, table.c.trait_id == trait_id)
        marked = tx.execute(sa.select(table.c.trait_id).where(mine)).first() is not None
        if marked == disabled:
            continue
        if disabled:
            tx.execute(sa.insert(table), {"resource_provider_id": provider_id, "trait_id": trait_id})
        else:
            tx.execute(sa.delete(table).where(mine))
        compute_nodes.touch_provider(tx, provider_id)


def delete(tx: Transaction, uuid: str, *, only_down: bool = False) -> None:
    """Delete a service; for a nova-compute also the hypervisors, providers and aggregate memberships of its host.

    ``only_down``: raise Conflict if the service is up. Raises: NotFound; Conflict if the host has servers or
    allocations (such as claims for servers that are being built), or if servers move from or to it.
    """
    service = get(tx.connection, uuid)
    if only_down and service.is_up:
        raise Conflict(
            "Unable to delete a service that is up. Stop the service, or set its forced_down, first.", host=service.host
        )
    if service.binary == COMPUTE:
        busy = sa.select(t.instances.c.id).where(t.instances.c.host == service.host, t.instances.c.deleted.is_(False))
        if tx.execute(busy.limit(1)).first() is not None:
            raise Conflict(
                "Unable to delete compute service that is hosting instances. Migrate or delete the instances first.",
                host=service.host,
            )
        if server_migrations.open_at(tx.connection, service.host):
            raise Conflict(
                "Unable to delete compute service that servers are being moved from or to. Confirm, revert or abort "
                "these moves first.",
                host=service.host,
            )
        for evacuation in server_migrations.evacuated_from(tx.connection, [service.host]):
            moves.clean_source(tx, evacuation)  # the agent no longer exists and cannot clean up
        aggregates.forget_host(tx, service.host)
        compute_nodes.delete_of_host(tx, service.host)
        host_agents.forget_host(tx, service.host)
        tx.log("service", service.host, None)
    tx.execute(sa.delete(t.services).where(t.services.c.id == service.id))


def as_change(service: Service) -> LoggedService:
    """Return a nova-compute service in the form of the change log. Times are in epoch seconds."""
    return LoggedService(
        disabled=service.disabled,
        reason=service.disabled_reason,
        forced_down=service.forced_down or service.declared_down,
        created=epoch(service.created_at),
    )


def _log(tx: Transaction, service: Service) -> None:
    if service.binary == COMPUTE:
        tx.log("service", service.host, as_change(service))


def _one(connection: Connection, condition: sa.ColumnElement[bool], missing: str) -> Service:
    found = _read(connection, _WITH_PROCESS.where(condition))
    if not found:
        raise NotFound(missing)
    return found[0]


def _read(connection: Connection, statement: sa.Select[Any]) -> tuple[Service, ...]:
    """Return services with the state of the processes that run them."""
    return _services(connection, tuple(heeding(connection.execute(statement).mappings())))


def _services(connection: Connection, rows: Sequence[Mapping[Any, Any]]) -> tuple[Service, ...]:
    """Return the services of rows of ``_WITH_PROCESS``."""
    machines = host_agents.machines(connection) if any(row["binary"] != COMPUTE for row in rows) else {}
    found = []
    for row in rows:
        values = {**row, "declared_down": bool(row["declared_down"])}
        up, last_seen_at = values.pop("up"), values.pop("last_seen_at")
        if row["binary"] != COMPUTE:
            up, last_seen_at = machines.get(row["host"], (False, None))
        found.append(Service(**values, process_is_up=bool(up), last_seen_at=last_seen_at))
    return tuple(found)
