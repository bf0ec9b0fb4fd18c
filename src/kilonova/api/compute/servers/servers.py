# SPDX-License-Identifier: Apache-2.0
"""Routes of servers. Handlers to create and list servers are in the modules ``create`` and ``lists``."""

from kilonova.api.compute.access_addresses import read_addresses
from kilonova.api.compute.schemas import servers as schemas
from kilonova.api.compute.servers.create import create_server
from kilonova.api.compute.servers.lists import list_servers, list_servers_detail
from kilonova.api.compute.servers.states import check_unlocked
from kilonova.api.compute.servers.views import Views, surroundings
from kilonova.api.http import Context, Endpoint, Reply, Request, Routes
from kilonova.api.lists_from_replica import from_replica
from kilonova.api.policy import ADMIN, PROJECT_MEMBER_OR_ADMIN, PROJECT_READER_OR_ADMIN, action, rule
from kilonova.db import aggregates, instances, request_specs
from kilonova.db.core.transaction import Transaction
from kilonova.errors import Conflict, NotFound
from kilonova.model.instance import Instance
from kilonova.notifications.events import ServerChanged
from kilonova.notifications.message import Source

_P = "os_compute_api:servers"
#: Routes whose replies show all fields of a server.
_SHOWN = (
    ("GET", "/servers/{server_id}"),
    ("GET", "/servers/detail"),
    ("PUT", "/servers/{server_id}"),
    action("rebuild"),
)
RULES = (
    rule(f"{_P}:index", PROJECT_READER_OR_ADMIN, "List servers", ("GET", "/servers")),
    rule(f"{_P}:detail", PROJECT_READER_OR_ADMIN, "List servers with details", ("GET", "/servers/detail")),
    rule(f"{_P}:index:get_all_tenants", ADMIN, "List servers of all projects", ("GET", "/servers")),
    rule(f"{_P}:detail:get_all_tenants", ADMIN, "List servers of all projects", ("GET", "/servers/detail")),
    rule(f"{_P}:allow_all_filters", ADMIN, "Use every filter of the list", ("GET", "/servers")),
    rule(f"{_P}:show", PROJECT_READER_OR_ADMIN, "Show a server", ("GET", "/servers/{server_id}")),
    rule(f"{_P}:show:flavor-extra-specs", PROJECT_READER_OR_ADMIN, "Show extra specs of a server's flavor", *_SHOWN),
    rule(f"{_P}:show:host_status", ADMIN, "Show the status of a server's host", *_SHOWN),
    rule(f"{_P}:show:host_status:unknown-only", ADMIN, "Show the status of a server's host if unknown", *_SHOWN),
    rule(f"{_P}:show:fault_details", ADMIN, "Show the details of a fault", *_SHOWN),
    rule("os_compute_api:os-extended-server-attributes", ADMIN, "Show host and node of a server", *_SHOWN),
    rule(f"{_P}:create", PROJECT_MEMBER_OR_ADMIN, "Create a server", ("POST", "/servers")),
    rule(f"{_P}:create:forced_host", ADMIN, "Force a host with ZONE:HOST:NODE", ("POST", "/servers")),
    rule("compute:servers:create:requested_destination", ADMIN, "Request a host", ("POST", "/servers")),
    rule(f"{_P}:create:zero_disk_flavor", ADMIN, "Use a flavor without disk", ("POST", "/servers")),
    rule(f"{_P}:create:attach_network", PROJECT_MEMBER_OR_ADMIN, "Request networks", ("POST", "/servers")),
    rule(
        "network:attach_external_network",
        ADMIN,
        "Attach a server to an external network that is not shared",
        ("POST", "/servers"),
        ("POST", "/servers/{server_id}/os-interface"),
    ),
    rule(
        f"{_P}:create:trusted_certs",
        PROJECT_MEMBER_OR_ADMIN,
        "Set trusted image certificates",
        ("POST", "/servers"),
    ),
    rule(f"{_P}:update", PROJECT_MEMBER_OR_ADMIN, "Update a server", ("PUT", "/servers/{server_id}")),
    rule(f"{_P}:delete", PROJECT_MEMBER_OR_ADMIN, "Delete a server", ("DELETE", "/servers/{server_id}")),
)
#: Field of the body of an update → database column.
_UPDATED = {
    "name": "name",
    "description": "description",
    "hostname": "hostname",
    "OS-DCF:diskConfig": "disk_config",
}
_PINNED = "pinned_availability_zone"


def show_server(ctx: Context, request: Request) -> Reply:
    """GET /servers/{server_id}.  Errors: 404, also for a server of another project."""
    instance = find_server(ctx, request.path["server_id"], "os_compute_api:servers:show")
    with ctx.read() as connection:
        around = surroundings(connection, [instance], request.version)
    return Reply(200, {"server": Views(ctx, request, around).detail(instance, with_groups=True)})


def update_server(ctx: Context, request: Request) -> Reply:
    """PUT /servers/{server_id}.  Since 2.75 the reply shows all fields of the server.

    Errors: 404; 409 if ``pinned_availability_zone`` is not the server's present zone.
    """
    before = find_server(ctx, request.path["server_id"], "os_compute_api:servers:update")
    server_id = before.uuid
    asked = request.body["server"]
    values = {column: asked[field] for field, column in _UPDATED.items() if field in asked}
    values |= read_addresses("server", asked.get("accessIPv4"), asked.get("accessIPv6"))

    def job(tx: Transaction) -> None:
        if _PINNED in asked:
            _pin(ctx, tx, instances.get(tx.connection, server_id), asked[_PINNED])
        if asked:
            instances.change(tx, server_id, **values)

    ctx.write(job)
    with ctx.read() as connection:
        instance = instances.get(connection, server_id)
        around = surroundings(connection, [instance], request.version)
    old_name = before.name if before.name != instance.name else None
    states = instance.vm_state, instance.task_state
    ctx.announce(ServerChanged(instance, *states, Source.API, old_name=old_name))
    return Reply(200, {"server": Views(ctx, request, around).updated(instance)})


def _pin(ctx: Context, tx: Transaction, instance: Instance, zone: str | None) -> None:
    """Pin a server to ``zone``, or unpin it if ``zone`` is None. Raises: Conflict if the server is not in ``zone``."""
    if zone is not None:
        default = ctx.backend.settings.compute.default_availability_zone
        host = instance.host or ""
        present = aggregates.zones_of_hosts(tx.connection, {host}).get(host, default) if host else None
        if zone != present:
            where = f"it is in zone {present}" if host else "it is on no host"
            raise Conflict(
                f"Server {instance.uuid} cannot be pinned to availability zone {zone}: {where}.", field=_PINNED
            )
    request_specs.change(tx, instance.uuid, availability_zone=zone)


def delete_server(ctx: Context, request: Request) -> Reply:
    """DELETE /servers/{server_id}.  Errors: 404; 409 if the server is locked.

    Another delete request is accepted while the first is in progress.
    """
    instance = find_server(ctx, request.path["server_id"], "os_compute_api:servers:delete")
    check_unlocked(ctx, instance)
    soft = ctx.backend.settings.periodic_tasks.reclaim_instance_interval_s != 0
    ctx.backend.conductor.operations.deletes.delete(instance.uuid, ctx.requester, soft=soft)
    return Reply(204)


def find_server(ctx: Context, server_id: str, rule_name: str, *, also_deleted: bool = False) -> Instance:
    """Return a server if policy allows ``rule_name`` on it.

    Raises: NotFound, also for a server that the caller may not see; Forbidden.
    """
    with ctx.read() as connection:
        find = instances.find_any if also_deleted else instances.find
        instance = find(connection, server_id)
    if instance is None or not ctx.sees(rule_name, instance.project_id):
        raise NotFound(f"Instance {server_id} could not be found.")
    ctx.authorize(rule_name, project_id=instance.project_id)
    return instance


ROUTES: Routes = {
    "/servers": {
        "GET": Endpoint(from_replica(list_servers), query=schemas.LIST),
        "POST": Endpoint(create_server, body=schemas.CREATE),
    },
    "/servers/detail": {"GET": Endpoint(from_replica(list_servers_detail), query=schemas.LIST)},
    "/servers/{server_id}": {
        "GET": Endpoint(show_server),
        "PUT": Endpoint(update_server, body=schemas.UPDATE),
        "DELETE": Endpoint(delete_server),
    },
}
