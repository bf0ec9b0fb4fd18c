# SPDX-License-Identifier: Apache-2.0
"""Actions to repair a server: rescue, unrescue, change password, crash dump.  Source: spec COMPUTE_API §1.4."""

import secrets
from collections.abc import Mapping

from kilonova.api.compute.schemas import server_rescues as schemas
from kilonova.api.compute.servers.servers import find_server
from kilonova.api.compute.servers.states import check_allowed
from kilonova.api.http import Context, Endpoint, Reply, Request
from kilonova.api.microversion import Version
from kilonova.api.policy import PROJECT_MEMBER_OR_ADMIN, action, rule
from kilonova.api.validation import invalid_field
from kilonova.db import request_specs, server_passwords
from kilonova.errors import NotFound
from kilonova.model.image import Image
from kilonova.model.instance import Instance

_RESCUE, _UNRESCUE = "os_compute_api:os-rescue", "os_compute_api:os-unrescue"
_PASSWORD, _DUMP = "os_compute_api:os-admin-password", "os_compute_api:servers:trigger_crash_dump"
RULES = (
    rule(_RESCUE, PROJECT_MEMBER_OR_ADMIN, "Rescue a server", action("rescue")),
    rule(_UNRESCUE, PROJECT_MEMBER_OR_ADMIN, "Unrescue a server", action("unrescue")),
    rule(_PASSWORD, PROJECT_MEMBER_OR_ADMIN, "Change the password of a server", action("changePassword")),
    rule(_DUMP, PROJECT_MEMBER_OR_ADMIN, "Trigger a crash dump of a server", action("trigger_crash_dump")),
)


def rescue(ctx: Context, request: Request) -> Reply:
    """Boot a server from a rescue image. The default is the image of the server itself.  Errors: 400, 404, 409."""
    instance = find_server(ctx, request.path["server_id"], _RESCUE)
    check_allowed(ctx, instance, "rescue")
    asked = request.body["rescue"] or {}
    image = (
        _own_image(ctx, instance) if asked.get("rescue_image_ref") is None else _image(ctx, asked["rescue_image_ref"])
    )
    password = asked.get("adminPass") or secrets.token_urlsafe(9)
    ctx.backend.conductor.operations.rescues.rescue(instance.uuid, image, password, ctx.requester)
    return Reply(200, {"adminPass": password} if ctx.backend.settings.api.enable_instance_password else {})


def _image(ctx: Context, image_ref: str) -> Image:
    try:
        image = ctx.backend.images.get(image_ref, token=ctx.credentials.token, project_id=ctx.project_id)
    except NotFound as error:
        raise invalid_field("rescue_image_ref", error.message) from None
    if image.status != "active":
        raise invalid_field("rescue_image_ref", f"Image {image.id} is not active.")
    return image


def _own_image(ctx: Context, instance: Instance) -> Image:
    """Return the image from which a server was created, as it was stored then. It may no longer exist in Glance."""
    with ctx.read() as connection:
        stored = request_specs.get_many(connection, [instance]).get(instance.uuid)
    if stored is None or stored.spec.image is None:
        raise invalid_field("rescue_image_ref", "The field is required for a server created without an image.")
    return stored.spec.image


def unrescue(ctx: Context, request: Request) -> Reply:
    """Boot a rescued server from its own disk.  Errors: 404, 409."""
    instance = find_server(ctx, request.path["server_id"], _UNRESCUE)
    check_allowed(ctx, instance, "unrescue")
    ctx.backend.conductor.operations.rescues.unrescue(instance.uuid, ctx.requester)
    return Reply(202)


def change_password(ctx: Context, request: Request) -> Reply:
    """Set the administrator's password inside the guest.  Errors: 404, 409."""
    instance = find_server(ctx, request.path["server_id"], _PASSWORD)
    check_allowed(ctx, instance, "change-password")
    password = request.body["changePassword"]["adminPass"]
    encrypted = _encrypted(ctx, instance, password)
    ctx.backend.conductor.operations.rescues.change_password(instance.uuid, password, ctx.requester, encrypted)
    return Reply(202)


def _encrypted(ctx: Context, instance: Instance, password: str) -> str:
    """Return the password encrypted with the server's SSH key, or "" if the server has no suitable key."""
    with ctx.read() as connection:
        stored = request_specs.get_many(connection, [instance]).get(instance.uuid)
    if stored is None or stored.key is None or stored.key.type != "ssh":
        return ""
    from kilonova.api.compute import key_material  # noqa: PLC0415 - imports cryptography, which is slow

    encrypted = key_material.encrypt_for(stored.key.data, password) or ""
    return encrypted if len(encrypted) <= server_passwords.LONGEST else ""


def trigger_crash_dump(ctx: Context, request: Request) -> Reply:
    """Trigger a crash dump in the guest of a server.  Since: 2.17.  Errors: 404, 409."""
    instance = find_server(ctx, request.path["server_id"], _DUMP)
    check_allowed(ctx, instance, "crash-dump")
    ctx.backend.conductor.operations.rescues.crash_dump(instance.uuid, ctx.requester)
    return Reply(202)


ACTIONS: Mapping[str, Endpoint] = {
    "rescue": Endpoint(rescue, body=schemas.RESCUE),
    "unrescue": Endpoint(unrescue, body=schemas.UNRESCUE),
    "changePassword": Endpoint(change_password, body=schemas.CHANGE_PASSWORD),
    "trigger_crash_dump": Endpoint(trigger_crash_dump, body=schemas.CRASH_DUMP, since=Version(2, 17)),
}
