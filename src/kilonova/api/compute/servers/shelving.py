# SPDX-License-Identifier: Apache-2.0
"""Shelve, shelve-offload and unshelve of servers.  Source: spec COMPUTE_API §1.4."""

from collections.abc import Mapping

from kilonova.api.compute.schemas import server_shelving as schemas
from kilonova.api.compute.servers.images import new_image_of, register
from kilonova.api.compute.servers.servers import find_server
from kilonova.api.compute.servers.states import check_allowed
from kilonova.api.compute.target import check_place
from kilonova.api.http import Context, Endpoint, Reply, Request
from kilonova.api.microversion import Version
from kilonova.api.policy import ADMIN, PROJECT_MEMBER_OR_ADMIN, action, rule
from kilonova.api.validation import invalid_field
from kilonova.db import request_specs, services
from kilonova.errors import Conflict, UnexpectedTaskState
from kilonova.model.instance import Instance, TaskState, VmState

_RULE = "os_compute_api:os-shelve"
RULES = (
    rule(f"{_RULE}:shelve", PROJECT_MEMBER_OR_ADMIN, "Shelve a server", action("shelve")),
    rule(f"{_RULE}:shelve_offload", ADMIN, "Offload a shelved server from its host", action("shelveOffload")),
    rule(f"{_RULE}:unshelve", PROJECT_MEMBER_OR_ADMIN, "Unshelve a server", action("unshelve")),
    rule(f"{_RULE}:unshelve_to_host", ADMIN, "Unshelve a server to a host", action("unshelve")),
)
_WITH_PLACE = Version(2, 77)


def shelve(ctx: Context, request: Request) -> Reply:
    """Shelve a server: create an image of it and stop it.  Errors: 400, 403, 404, 409."""
    instance = find_server(ctx, request.path["server_id"], f"{_RULE}:shelve")
    check_allowed(ctx, instance, "shelve")
    image = new_image_of(ctx, instance, f"{instance.name}-shelved", {})
    offload = ctx.backend.settings.periodic_tasks.shelved_offload_time_s == 0
    try:
        ctx.backend.conductor.operations.shelving.shelve(
            instance.uuid, image.id, ctx.requester, lambda: register(ctx, image), offload=offload
        )
    except UnexpectedTaskState as error:
        raise Conflict(error.message) from None
    return Reply(202)


def shelve_offload(ctx: Context, request: Request) -> Reply:
    """Offload a shelved server from its host. Also accepted while an offload is in progress.  Errors: 400, 404, 409."""
    instance = find_server(ctx, request.path["server_id"], f"{_RULE}:shelve_offload")
    if (instance.vm_state, instance.task_state) == (VmState.SHELVED, TaskState.SHELVING_OFFLOADING):
        return Reply(202)  # no error: the offload may have started automatically, unnoticed by the client
    check_allowed(ctx, instance, "shelve-offload")
    try:
        ctx.backend.conductor.operations.shelving.offload(instance.uuid, ctx.requester)
    except UnexpectedTaskState as error:
        raise Conflict(error.message) from None
    return Reply(202)


def unshelve(ctx: Context, request: Request) -> Reply:
    """Unshelve a server.  Errors: 400, 403, 404, 409.

    2.77 adds an availability zone for the server. 2.91 adds a host, and null as the zone to unpin the server.
    """
    instance = find_server(ctx, request.path["server_id"], f"{_RULE}:unshelve")
    asked: Mapping[str, str | None] = (request.body["unshelve"] if request.version >= _WITH_PLACE else None) or {}
    host = asked.get("host")
    if host is not None:
        ctx.authorize(f"{_RULE}:unshelve_to_host", project_id=instance.project_id)
    check_allowed(ctx, instance, "unshelve")
    if asked and instance.vm_state is not VmState.SHELVED_OFFLOADED:
        raise Conflict(
            f"Cannot 'unshelve' instance {instance.uuid} to a zone or host while it is in vm_state "
            f"{instance.vm_state.value}: it is still on its host."
        )
    rezoned, zone = "availability_zone" in asked, asked.get("availability_zone")
    check_place(ctx, zone, None, None)
    if host is not None:
        _check_host(ctx, instance, host, zone if rezoned else _zone_of(ctx, instance))
    try:
        ctx.backend.conductor.operations.shelving.unshelve(
            instance.uuid, ctx.requester, host=host, rezoned=rezoned, zone=zone
        )
    except UnexpectedTaskState as error:
        raise Conflict(error.message) from None
    return Reply(202)


def _zone_of(ctx: Context, instance: Instance) -> str | None:
    """Return the availability zone to which the server is pinned, or None."""
    with ctx.read() as connection:
        stored = request_specs.get_many(connection, [instance]).get(instance.uuid)
    return None if stored is None else stored.spec.availability_zone


def _check_host(ctx: Context, instance: Instance, host: str, zone: str | None) -> None:
    """Raise InvalidRequest if ``host`` does not exist, Conflict if it is not in ``zone`` (None: any zone)."""
    with ctx.read() as connection:
        if services.find_by_host(connection, host) is None:
            raise invalid_field("unshelve.host", f"Compute host {host} could not be found.")
    if zone is None:
        return
    default = ctx.backend.settings.compute.default_availability_zone
    if ctx.backend.mirror.directory().zone_of_host.get(host, default) != zone:
        raise Conflict(f"Host {host} is not in availability zone {zone}, to which server {instance.uuid} is pinned.")


ACTIONS: Mapping[str, Endpoint] = {
    "shelve": Endpoint(shelve, body=schemas.SHELVE),
    "shelveOffload": Endpoint(shelve_offload, body=schemas.SHELVE_OFFLOAD),
    "unshelve": Endpoint(unshelve, body=schemas.UNSHELVE),
}
