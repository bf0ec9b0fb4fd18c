# SPDX-License-Identifier: Apache-2.0
"""Rebuild of a server: its guest is re-created on the same host.  Source: spec COMPUTE_API §1.4."""

from collections.abc import Mapping

from msgspec import UnsetType

from kilonova.api.compute.access_addresses import read_addresses
from kilonova.api.compute.bodies.rebuild import Rebuild
from kilonova.api.compute.possible_guests import require_possible_guest
from kilonova.api.compute.schemas import server_rebuild as schemas
from kilonova.api.compute.servers.create import generated_password, read_key, read_trusted_certs, read_user_data
from kilonova.api.compute.servers.servers import find_server
from kilonova.api.compute.servers.states import check_allowed, host_is_up
from kilonova.api.compute.servers.views import Views, surroundings
from kilonova.api.http import Context, Endpoint, Reply, Request
from kilonova.api.microversion import Version
from kilonova.api.policy import PROJECT_MEMBER_OR_ADMIN, action, rule
from kilonova.api.schemas.types import as_bool
from kilonova.api.typed_body import read_typed
from kilonova.api.validation import invalid_field
from kilonova.db import instances, request_specs
from kilonova.errors import Conflict, NotFound
from kilonova.model.image import Image
from kilonova.model.instance import Instance
from kilonova.model.request_spec import StoredRequest
from kilonova.scheduler.devices.pci_request import read_aliases
from kilonova.scheduler.numa_request import numa_request

_P = "os_compute_api:servers:rebuild"
_SIGNED_WITH = "Set trusted image certificates"
RULES = (
    rule(_P, PROJECT_MEMBER_OR_ADMIN, "Rebuild a server", action("rebuild")),
    rule(f"{_P}:trusted_certs", PROJECT_MEMBER_OR_ADMIN, _SIGNED_WITH, action("rebuild")),
)
_SHOWS_KEY, _SHOWS_USER_DATA = Version(2, 54), Version(2, 57)


def rebuild(ctx: Context, request: Request) -> Reply:
    """Rebuild a server from its image or another one.  Errors: 400, 403 over quota, 404, 409.

    New fields: 2.19 description, 2.54 key pair, 2.57 user data, 2.63 certificates, 2.90 host name. Since 2.94 the host
    name may be an FQDN.
    """
    instance = find_server(ctx, request.path["server_id"], _P)
    check_allowed(ctx, instance, "rebuild")
    asked = read_typed(Rebuild, request.body["rebuild"])
    _refuse_unsupported(asked)
    addresses = read_addresses("rebuild", asked.access_ip_v4, asked.access_ip_v6)
    trusted = read_trusted_certs(ctx, asked.trusted_image_certificates, _P, project_id=instance.project_id)
    stored = _stored_request(ctx, instance)
    image = _image(ctx, instance, stored, asked.image_ref)
    key = stored.key if isinstance(asked.key_name, UnsetType) else read_key(ctx, asked.key_name)
    user_data = stored.user_data if isinstance(asked.user_data, UnsetType) else read_user_data(asked.user_data)
    if not host_is_up(ctx, instance.host):
        raise Conflict("The compute service of the server's host is down; rebuild the server when it is up again.")
    admin_pass = generated_password(ctx, asked.admin_pass)
    ctx.backend.conductor.operations.rebuilds.rebuild(
        instance.uuid,
        instance.flavor,
        stored,
        image,
        ctx.requester,
        user_data=user_data,
        key=key,
        trusted_certs=stored.trusted_certs if trusted is None else trusted,
        admin_pass=admin_pass,
        values=asked.columns() | addresses,
        limits=ctx.backend.limits.of_project(instance.project_id),
    )
    return _begun(ctx, request, instance, admin_pass)


def _refuse_unsupported(asked: Rebuild) -> None:
    if as_bool(asked.preserve_ephemeral):
        raise invalid_field("preserve_ephemeral", "The hypervisor cannot preserve ephemeral disks.")
    if asked.personality:
        raise invalid_field("personality", "File injection is not supported; use user_data.")


def _stored_request(ctx: Context, instance: Instance) -> StoredRequest:
    with ctx.read() as connection:
        stored = request_specs.get_many(connection, [instance]).get(instance.uuid)
    if stored is None:
        raise Conflict(f"The create request of instance {instance.uuid} is not stored.")
    return stored


def _image(ctx: Context, instance: Instance, stored: StoredRequest, image_ref: str) -> Image:
    """Return the requested image. Raises: InvalidRequest if the image does not fit the flavor or the NUMA topology."""
    try:
        image = ctx.backend.images.get(image_ref, token=ctx.credentials.token, project_id=ctx.project_id)
    except NotFound as error:
        raise invalid_field("imageRef", error.message) from None
    aliases = read_aliases(ctx.backend.settings.scheduler.pci_alias)
    require_possible_guest(instance.flavor, image, aliases, flavor_field="imageRef", image_field="imageRef")
    if numa_request(instance.flavor, image) != numa_request(instance.flavor, stored.spec.image):
        raise invalid_field("imageRef", "A rebuild cannot change the NUMA topology of a server, as this image would.")
    return image


def _begun(ctx: Context, request: Request, instance: Instance, admin_pass: str | None) -> Reply:
    """Return the reply to a rebuild: the server, and some fields that other routes do not show."""
    with ctx.read() as connection:
        present = instances.find(connection, instance.uuid) or instance
        around = surroundings(connection, [present], request.version)
    view = Views(ctx, request, around).updated(present)
    if request.version >= _SHOWS_KEY:
        view["key_name"] = present.key_name
    if request.version >= _SHOWS_USER_DATA:
        view["user_data"] = around.requests[present.uuid].user_data if present.uuid in around.requests else None
        view.pop("OS-EXT-SRV-ATTR:user_data", None)  # as in Nova, this reply has ``user_data`` instead
    if admin_pass is not None:
        view["adminPass"] = admin_pass
    return Reply(202, {"server": view}, {"Location": view["links"][0]["href"]})


ACTIONS: Mapping[str, Endpoint] = {"rebuild": Endpoint(rebuild, body=schemas.REBUILD)}
