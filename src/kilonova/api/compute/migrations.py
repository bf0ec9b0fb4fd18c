# SPDX-License-Identifier: Apache-2.0
"""Migrations of all servers, newest first: resizes, cold and live migrations, evacuations."""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy.engine import Connection

from kilonova.api.compute.links import bookmark_links, next_link
from kilonova.api.compute.schemas import migrations as schemas
from kilonova.api.compute.times import read_period, stored_time
from kilonova.api.http import Context, Endpoint, Reply, Request, Routes, integer_param
from kilonova.api.lists_from_replica import from_replica
from kilonova.api.microversion import Version
from kilonova.api.policy import ADMIN, PROJECT_MANAGER_OR_ADMIN, rule
from kilonova.api.schemas.types import MAX_INTEGER, as_bool
from kilonova.db import compute_nodes, flavors, server_migrations
from kilonova.db.server_migrations import MigrationQuery
from kilonova.deadline import heeding
from kilonova.errors import Forbidden
from kilonova.model.server_migration import MigrationStatus, MigrationType, ServerMigration
from kilonova.records import dataclass

_P, _ALL = "os_compute_api:os-migrations", "/os-migrations"
RULES = (
    rule(f"{_P}:index", PROJECT_MANAGER_OR_ADMIN, "List migrations", ("GET", _ALL)),
    rule(f"{_P}:index:all_projects", ADMIN, "List migrations of all projects", ("GET", _ALL)),
    rule(f"{_P}:index:host", ADMIN, "Show hosts of migrations", ("GET", _ALL)),
)
_PAGED = Version(2, 59)
#: Statuses in which a live migration can be shown as ``/servers/{server_id}/migrations/{migration_id}``.
IN_PROGRESS = frozenset(
    {
        MigrationStatus.QUEUED,
        MigrationStatus.PREPARING,
        MigrationStatus.RUNNING,
        MigrationStatus.POST_MIGRATING,
    }
)


#: Filters that need the right to see hosts, because with them a client could guess and verify names of hosts.
_BY_HOST = ("host", "source_compute")


@dataclass(frozen=True, slots=True)
class _Around:
    """Data for views of migrations, in addition to the migrations.

    ``addresses``: (host, node) of a destination → IP address. ``flavors``: flavor id → numeric id of the flavor.
    """

    addresses: Mapping[tuple[str, str], str]
    flavors: Mapping[str, int]


def list_migrations(ctx: Context, request: Request) -> Reply:
    """GET /os-migrations.  2.59 adds paging, 2.80 adds filters by user and project.  Errors: 400, 403."""
    ctx.authorize(f"{_P}:index")
    sees_hosts = ctx.may(f"{_P}:index:host")
    if not sees_hosts and any(request.param(name) is not None for name in _BY_HOST):
        raise Forbidden(f"Policy doesn't allow {_P}:index:host to be performed.", field="host")
    query = _query(ctx, request)
    if as_bool(request.param("hidden") or "false"):
        return Reply(200, {"migrations": []})
    with ctx.read() as connection:
        found = server_migrations.list_page(connection, query)
        around = _around(connection, found)
    views = [_view(request, migration, around, sees_hosts=sees_hosts) for migration in heeding(found)]
    body: dict[str, Any] = {"migrations": views}
    if request.version >= _PAGED and found and len(found) == query.limit:
        body["migrations_links"] = [next_link(request, found[-1].uuid)]
    return Reply(200, body)


def host_fields(migration: ServerMigration, address: str | None, *, shown: bool) -> dict[str, Any]:
    """Return the fields with source and destination of a migration. All values are None if ``shown`` is False.

    ``address``: IP address of the destination.
    """
    fields = {
        "source_compute": migration.source_host,
        "source_node": migration.source_node,
        "dest_compute": migration.dest_host,
        "dest_node": migration.dest_node,
        "dest_host": address,
    }
    return fields if shown else dict.fromkeys(fields)


def is_in_progress(migration: ServerMigration) -> bool:
    """Whether a migration is a live migration in progress."""
    return migration.migration_type is MigrationType.LIVE_MIGRATION and migration.status in IN_PROGRESS


def _query(ctx: Context, request: Request) -> MigrationQuery:
    paged = request.version >= _PAGED
    since, before = read_period(request) if paged else (None, None)
    maximum = ctx.backend.settings.api.max_limit if paged else MAX_INTEGER
    asked = integer_param(request, "limit") if paged else None
    user, project = _asker(ctx, request)
    return MigrationQuery(
        instance_uuid=request.param("instance_uuid"),
        host=request.param("host"),
        source_compute=request.param("source_compute"),
        status=request.param("status"),
        migration_type=request.param("migration_type"),
        user_id=user,
        project_id=project,
        changed_since=since,
        changed_before=before,
        limit=maximum if asked is None else min(asked, maximum),
        marker=request.param("marker") if paged else None,
    )


def _asker(ctx: Context, request: Request) -> tuple[str | None, str | None]:
    """Return the filters by user id and by project id. Raises: Forbidden if the caller may not see that project."""
    filtered = request.version >= Version(2, 80)
    user, project = (request.param(name) if filtered else None for name in ("user_id", "project_id"))
    if ctx.may(f"{_P}:index:all_projects"):
        return user, project
    if project not in {None, ctx.project_id}:
        raise Forbidden(f"Policy doesn't allow {_P}:index:all_projects to be performed.", field="project_id")
    return user, ctx.project_id


def _around(connection: Connection, found: Sequence[ServerMigration]) -> _Around:
    hosts = {migration.dest_host for migration in found if migration.dest_host}
    used = {flavor.flavor_id for migration in found for flavor in (migration.old_flavor, migration.new_flavor)}
    return _Around(compute_nodes.addresses(connection, hosts), flavors.numbers(connection, used))


def _view(request: Request, migration: ServerMigration, around: _Around, *, sees_hosts: bool) -> dict[str, Any]:
    version = request.version
    address = around.addresses.get((migration.dest_host or "", migration.dest_node or ""))
    view: dict[str, Any] = {
        "id": migration.id,
        "instance_uuid": migration.instance_uuid,
        "status": migration.status.value,
        "old_instance_type_id": around.flavors.get(migration.old_flavor.flavor_id, 0),
        "new_instance_type_id": around.flavors.get(migration.new_flavor.flavor_id, 0),
        "created_at": stored_time(migration.created_at),
        "updated_at": stored_time(migration.updated_at),
        **host_fields(migration, address, shown=sees_hosts),
    }
    if version >= Version(2, 23):
        view["migration_type"] = migration.migration_type.value
        if is_in_progress(migration):
            view["links"] = bookmark_links(request, f"servers/{migration.instance_uuid}/migrations/{migration.id}")
    if version >= _PAGED:
        view["uuid"] = migration.uuid
    if version >= Version(2, 80):
        view |= {"user_id": migration.user_id, "project_id": migration.project_id}
    return view


ROUTES: Routes = {_ALL: {"GET": Endpoint(from_replica(list_migrations), query=schemas.LIST)}}
