# SPDX-License-Identifier: Apache-2.0
"""Routes of a server's live migrations in progress: list, show, force completion, abort."""

from collections.abc import Callable, Mapping
from typing import Any

from sqlalchemy.engine import Connection

from kilonova.api.compute.actions import run_action
from kilonova.api.compute.identifiers import integer_id
from kilonova.api.compute.migrations import host_fields, is_in_progress
from kilonova.api.compute.schemas import migrations as schemas
from kilonova.api.compute.servers.servers import find_server
from kilonova.api.compute.servers.states import check_migrating
from kilonova.api.compute.times import stored_time
from kilonova.api.http import Context, Endpoint, Reply, Request, Routes
from kilonova.api.microversion import Version
from kilonova.api.policy import ADMIN, PROJECT_MANAGER_OR_ADMIN, action, rule
from kilonova.api.schemas import queries
from kilonova.db import compute_nodes, server_migrations
from kilonova.errors import ConcurrentUpdate, InvalidRequest, NotFound
from kilonova.model.instance import Instance
from kilonova.model.server_migration import MigrationStatus, ServerMigration
from kilonova.notifications.events import ServerActed
from kilonova.notifications.message import Phase

_P = "os_compute_api:servers:migrations"
_ALL = "/servers/{server_id}/migrations"
_ONE = f"{_ALL}/{{migration_id}}"
RULES = (
    rule(f"{_P}:index", PROJECT_MANAGER_OR_ADMIN, "List the live migrations of a server", ("GET", _ALL)),
    rule(f"{_P}:index:host", ADMIN, "Show hosts of migrations", ("GET", _ALL)),
    rule(f"{_P}:show", ADMIN, "Show a live migration", ("GET", _ONE)),
    rule(
        f"{_P}:force_complete",
        PROJECT_MANAGER_OR_ADMIN,
        "Force completion",
        action("force_complete", f"{_ONE}/action"),
    ),
    rule(f"{_P}:delete", PROJECT_MANAGER_OR_ADMIN, "Abort a live migration", ("DELETE", _ONE)),
)
_COPIED = tuple(f"{what}_{part}_bytes" for what in ("memory", "disk") for part in ("total", "processed", "remaining"))
_RUNNING = frozenset({MigrationStatus.RUNNING})
_NOT_YET_RUNNING = frozenset({MigrationStatus.ACCEPTED, MigrationStatus.QUEUED, MigrationStatus.PREPARING})


def list_server_migrations(ctx: Context, request: Request) -> Reply:
    """GET /servers/{server_id}/migrations.  Lists live migrations in progress.  Errors: 404."""
    instance = find_server(ctx, request.path["server_id"], f"{_P}:index")
    with ctx.read() as connection:
        found = [each for each in server_migrations.open_of(connection, [instance.uuid]) if is_in_progress(each)]
        addresses = _addresses(connection, found)
    shown = ctx.may(f"{_P}:index:host", project_id=instance.project_id)
    return Reply(200, {"migrations": [_view(request.version, each, addresses, sees_hosts=shown) for each in found]})


def show_server_migration(ctx: Context, request: Request) -> Reply:
    """GET /servers/{server_id}/migrations/{migration_id}.  Errors: 404, also for a cold or a finished migration."""
    instance = find_server(ctx, request.path["server_id"], f"{_P}:show")
    with ctx.read() as connection:
        migration = _migration(connection, instance, request)
        if not is_in_progress(migration):
            raise NotFound(f"Migration {migration.id} of server {instance.uuid} is not a live migration in progress.")
        addresses = _addresses(connection, [migration])
    return Reply(200, {"migration": _view(request.version, migration, addresses, sees_hosts=True)})


def act(ctx: Context, request: Request) -> Reply:
    """POST /servers/{server_id}/migrations/{migration_id}/action."""
    return run_action(ctx, request, ACTIONS)


def force_complete(ctx: Context, request: Request) -> Reply:
    """Force a live migration to complete. The hypervisor may pause the guest for this.

    Errors: 400 unless the migration's status is running; 404; 409 if the server is locked or not migrating.
    """
    instance = find_server(ctx, request.path["server_id"], f"{_P}:force_complete")
    with ctx.read() as connection:
        migration = _migration(connection, instance, request)
    check_migrating(ctx, instance, "force_complete")
    try:
        ctx.backend.conductor.operations.live_migrations.force_complete(
            migration, ctx.requester, _RUNNING, _telling(ctx, "live_migration_force_complete", instance)
        )
    except ConcurrentUpdate as error:
        raise InvalidRequest(error.message) from None
    return Reply(202)


def abort(ctx: Context, request: Request) -> Reply:
    """DELETE …/migrations/{migration_id}.  Aborts a live migration.

    Errors: 400 unless the migration's status is running, or, since 2.65, one of the statuses before running; 404; 409
    if the server is locked or not migrating.
    """
    instance = find_server(ctx, request.path["server_id"], f"{_P}:delete")
    with ctx.read() as connection:
        migration = _migration(connection, instance, request)
    check_migrating(ctx, instance, "abort live migration")
    states = _RUNNING | (_NOT_YET_RUNNING if request.version >= Version(2, 65) else frozenset())
    try:
        ctx.backend.conductor.operations.live_migrations.abort(
            migration, ctx.requester, states, _telling(ctx, "live_migration_abort", instance)
        )
    except ConcurrentUpdate as error:
        raise InvalidRequest(error.message) from None
    return Reply(202)


def _telling(ctx: Context, action: str, instance: Instance) -> Callable[[], None]:
    """Return a function that publishes the start and the end notification of ``action``."""

    def tell() -> None:
        ctx.announce(*(ServerActed(action, phase, instance, host=instance.host) for phase in (Phase.START, Phase.END)))

    return tell


def _migration(connection: Connection, instance: Instance, request: Request) -> ServerMigration:
    number = integer_id(request.path["migration_id"], "migration id")
    return server_migrations.get_of_server(connection, instance.uuid, number)


def _addresses(connection: Connection, found: list[ServerMigration]) -> Mapping[tuple[str, str], str]:
    return compute_nodes.addresses(connection, {each.dest_host for each in found if each.dest_host})


def _view(
    version: Version,
    migration: ServerMigration,
    addresses: Mapping[tuple[str, str], str],
    *,
    sees_hosts: bool,
) -> dict[str, Any]:
    address = addresses.get((migration.dest_host or "", migration.dest_node or ""))
    copied = migration.progress or {}
    view: dict[str, Any] = {
        "id": migration.id,
        "server_uuid": migration.instance_uuid,
        "status": migration.status.value,
        "created_at": stored_time(migration.created_at),
        "updated_at": stored_time(migration.updated_at),
        **host_fields(migration, address, shown=sees_hosts),
        **{name: copied.get(name) for name in _COPIED},
    }
    if version >= Version(2, 59):
        view["uuid"] = migration.uuid
    if version >= Version(2, 80):
        view |= {"user_id": migration.user_id, "project_id": migration.project_id}
    return view


ACTIONS: Mapping[str, Endpoint] = {"force_complete": Endpoint(force_complete, body=schemas.FORCE_COMPLETE)}
ROUTES: Routes = {
    _ALL: {"GET": Endpoint(list_server_migrations, query=queries.NONE, since=Version(2, 23))},
    _ONE: {
        "GET": Endpoint(show_server_migration, query=queries.NONE, since=Version(2, 23)),
        "DELETE": Endpoint(abort, query=queries.NONE, since=Version(2, 24)),
    },
    f"{_ONE}/action": {"POST": Endpoint(act, since=Version(2, 22))},
}
