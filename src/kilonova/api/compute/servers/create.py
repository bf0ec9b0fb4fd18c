# SPDX-License-Identifier: Apache-2.0
"""POST /servers: validate the body, store the new servers, and start to build them.

After all validation, one transaction stores the instances, one request spec for all of them, their membership in a
server group, and their workflows.
"""

import base64
import binascii
import re
import secrets
from collections.abc import Sequence
from typing import Any

from msgspec import UnsetType

from kilonova.api.compute.access_addresses import read_addresses
from kilonova.api.compute.bodies.servers import CreateServers, NewServer
from kilonova.api.compute.flavors import find_asked
from kilonova.api.compute.hints import read_hints, unseen_instances
from kilonova.api.compute.links import bookmark_links
from kilonova.api.compute.possible_guests import require_possible_guest
from kilonova.api.compute.servers.local_disks import read_local_disks
from kilonova.api.compute.servers.requested_networks import read_demands, read_networks
from kilonova.api.compute.target import Target, read_target
from kilonova.api.http import Context, Reply, Request
from kilonova.api.schemas.types import as_bool
from kilonova.api.typed_body import read_typed
from kilonova.api.validation import invalid_field
from kilonova.db import keypairs, server_groups
from kilonova.errors import Forbidden, NotFound
from kilonova.identifiers import new_uuid
from kilonova.model.config_drive import PublicKey
from kilonova.model.flavor import Flavor
from kilonova.model.image import Image
from kilonova.model.instance import Instance, TaskState, VmState
from kilonova.model.request_spec import RequestSpec
from kilonova.notifications.events import GroupActed
from kilonova.scheduler.devices.pci_request import read_aliases

_TO_HYPHEN = re.compile(r"[ _.]")
_NOT_IN_A_HOST_NAME = re.compile(r"[^a-z0-9-]")
_DRIVE_PROPERTY = "img_config_drive"


def create_server(ctx: Context, request: Request) -> Reply:
    """POST /servers.  Errors: 400, 403 (also over quota)."""
    ctx.authorize("os_compute_api:servers:create")
    body = read_typed(CreateServers, request.body)
    asked = body.server
    least, count = _counts(asked, ctx.backend.settings.api.max_servers_per_request)
    _refuse_what_needs_other_services(ctx, asked)
    trusted = read_trusted_certs(ctx, asked.trusted_image_certificates, "os_compute_api:servers:create")
    target = read_target(ctx, asked)
    flavor = _flavor(ctx, asked)
    disks = read_local_disks(ctx, asked, flavor)
    image = _image(ctx, asked)
    aliases = read_aliases(ctx.backend.settings.scheduler.pci_alias)
    require_possible_guest(flavor, image, aliases, flavor_field="flavorRef", image_field="imageRef")
    key = read_key(ctx, asked.key_name)
    user_data = read_user_data(asked.user_data)
    hints = read_hints(ctx, body.hints or body.extension_hints)
    group_uuid = _group(ctx, hints)
    if asked.hostname is not None and count > 1:
        raise invalid_field("hostname", "The field cannot be used with max_count above 1.")
    networks, count = read_networks(ctx, asked, least, count)
    demands = read_demands(ctx, request, networks, flavor, image)
    reservation_id = "r-" + secrets.token_hex(4)
    built = _instances(ctx, asked, flavor, image, target, count, reservation_id)
    spec = RequestSpec(
        flavor=flavor,
        image=image,
        project_id=ctx.project_id,
        user_id=ctx.user_id,
        request_id=ctx.request_id,
        instance_uuids=tuple(instance.uuid for instance in built),
        availability_zone=target.zone,
        hints=hints,
        unseen_instances=unseen_instances(ctx, hints),
        force_host=target.forced_host,
        force_node=target.forced_node,
        requested_host=target.requested_host,
        requested_node=target.requested_node,
        remote_address=ctx.remote_address,
        is_admin=ctx.may("context_is_admin"),
        networks=demands,
    )
    admin_pass = generated_password(ctx, asked.admin_pass)
    ctx.backend.conductor.build(
        built,
        spec,
        group_uuid,
        user_data,
        key=key,
        trusted_certs=trusted or (),
        admin_pass=admin_pass,
        at_least=least,
        limits=ctx.backend.limits.of_project(ctx.project_id),
        networks=networks,
        disks=disks,
    )
    if group_uuid is not None and ctx.backend.announcer.is_on:
        _announce_members(ctx, group_uuid, built)
    if as_bool(asked.return_reservation_id):
        return Reply(202, {"reservation_id": reservation_id})
    return _created(request, built[0], asked, admin_pass)


def _announce_members(ctx: Context, group_uuid: str, built: Sequence[Instance]) -> None:
    """Publish the notification that new servers have become members of a server group."""
    with ctx.read() as connection:
        group = server_groups.get(connection, group_uuid)
    members = frozenset(group.members)
    ctx.announce(GroupActed("add_member", group, tuple(each.uuid for each in built if each.uuid in members)))


def _created(request: Request, first: Instance, asked: NewServer, admin_pass: str | None) -> Reply:
    links = bookmark_links(request, f"servers/{first.uuid}")
    view: dict[str, Any] = {
        "id": first.uuid,
        "links": links,
        "OS-DCF:diskConfig": first.disk_config,
        "security_groups": [{"name": group.name} for group in asked.security_groups] or [{"name": "default"}],
    }
    if admin_pass is not None:
        view["adminPass"] = admin_pass
    return Reply(202, {"server": view}, {"Location": links[0]["href"]})


def generated_password(ctx: Context, requested: str | None) -> str | None:
    """Return the requested password, or a new one. Return None if the option ``enable_instance_password`` is off."""
    if not ctx.backend.settings.api.enable_instance_password:
        return None
    return requested or secrets.token_urlsafe(9)


def _counts(asked: NewServer, maximum: int) -> tuple[int, int]:
    """Return the minimum and the maximum number of servers to create. Raises: InvalidRequest."""
    least = 1 if asked.min_count is None else int(asked.min_count)
    most = least if asked.max_count is None else int(asked.max_count)
    for field, value in (("min_count", least), ("max_count", most)):
        if value < 1:
            raise invalid_field(field, f"Value: {value}. The value must be at least 1.")
    if least > most:
        raise invalid_field("min_count", "min_count must be <= max_count")
    if most > maximum:
        field = "min_count" if asked.max_count is None else "max_count"
        raise invalid_field(field, f"Value: {most}. One request may create at most {maximum} servers.")
    return least, most


def _refuse_what_needs_other_services(ctx: Context, asked: NewServer) -> None:
    if ctx.backend.network is None:
        _refuse_what_needs_networks(asked)
    if asked.personality:
        raise invalid_field("personality", "File injection is not supported; use user_data.")


def _refuse_what_needs_networks(asked: NewServer) -> None:
    if isinstance(asked.networks, tuple) and asked.networks:
        raise invalid_field(
            "networks", "No network service is configured: leave networks out, or use 'auto' or 'none'."
        )
    if any(group.name != "default" for group in asked.security_groups):
        raise invalid_field("security_groups", "No network service is configured.")


def _flavor(ctx: Context, asked: NewServer) -> Flavor:
    flavor = find_asked(ctx, asked.flavor_ref)
    if flavor.root_gib == 0 and not ctx.may("os_compute_api:servers:create:zero_disk_flavor"):
        raise Forbidden("Only volume-backed servers are allowed for flavors with zero disk.")
    return flavor


def _image(ctx: Context, asked: NewServer) -> Image:
    image_ref = asked.image_ref
    if not image_ref:
        raise invalid_field("imageRef", "A server needs an image: no volume service is configured.")
    try:
        return ctx.backend.images.get(image_ref, token=ctx.credentials.token, project_id=ctx.project_id)
    except NotFound as error:
        raise invalid_field("imageRef", error.message) from None


def read_trusted_certs(
    ctx: Context, requested: Sequence[str] | UnsetType | None, action: str, *, project_id: str | None = None
) -> tuple[str, ...] | None:
    """Return the trusted image certificates that the body requests, or None if the body does not have the field.

    ``action``: prefix of the policy rule. ``project_id``: project of the server, None for the caller's project.
    Certificates are only stored and shown: hosts do not validate the signatures of images. Nova's hosts validate them
    only if ``[glance] verify_glance_signatures`` is set.
    """
    if isinstance(requested, UnsetType):
        return None
    ctx.authorize(f"{action}:trusted_certs", project_id=project_id)
    return tuple(requested or ())


def read_key(ctx: Context, name: str | None) -> PublicKey | None:
    """Return the public key of the caller's key pair ``name``, or None if ``name`` is None. Raises: InvalidRequest."""
    if name is None:
        return None
    try:
        with ctx.read() as connection:
            return keypairs.get(connection, ctx.user_id, name).public_half
    except NotFound:
        raise invalid_field("key_name", "Invalid key_name provided.") from None


def read_user_data(text: str | None) -> str | None:
    """Return ``text``, the user data of the body, unchanged. Raises: InvalidRequest unless it is base64."""
    if text:
        try:
            base64.b64decode(text.encode("ascii"), validate=True)
        except (binascii.Error, UnicodeEncodeError):
            raise invalid_field("user_data", "The value must be base64.") from None
    return text


def _group(ctx: Context, hints: dict[str, tuple[str, ...]]) -> str | None:
    group_uuid = next(iter(hints.get("group", ())), None)
    if group_uuid is None:
        return None
    try:
        with ctx.read() as connection:
            group = server_groups.get(connection, group_uuid)
    except NotFound:
        group = None
    if group is None or group.project_id != ctx.project_id:
        raise invalid_field("os:scheduler_hints.group", f"Instance group {group_uuid} could not be found.")
    return group.uuid


def _instances(
    ctx: Context,
    asked: NewServer,
    flavor: Flavor,
    image: Image,
    target: Target,
    count: int,
    reservation_id: str,
) -> list[Instance]:
    built = []
    has_drive = as_bool(asked.config_drive) or _must_have_drive(ctx, image)
    addresses = read_addresses("server", asked.access_ip_v4, asked.access_ip_v6)
    for index in range(count):
        name = asked.name if count == 1 else f"{asked.name}-{index + 1}"
        instance_uuid = new_uuid()
        built.append(
            Instance(
                id=0,
                uuid=instance_uuid,
                name=name,
                hostname=asked.hostname or host_name_of(name, instance_uuid),
                description=asked.description,
                project_id=ctx.project_id,
                user_id=ctx.user_id,
                vm_state=VmState.BUILDING,
                task_state=TaskState.SCHEDULING,
                flavor=flavor,
                image_ref=image.id,
                image_properties=image.properties,
                key_name=asked.key_name,
                config_drive="True" if has_drive else "",
                metadata=asked.metadata,
                tags=tuple(dict.fromkeys(asked.tags)),
                reservation_id=reservation_id,
                launch_index=index,
                availability_zone=target.zone,
                disk_config=asked.disk_config,
                access_ip_v4=addresses.get("access_ip_v4"),
                access_ip_v6=addresses.get("access_ip_v6"),
            )
        )
    return built


def _must_have_drive(ctx: Context, image: Image) -> bool:
    """Whether the server needs a config drive because of its image or of the option ``force_config_drive``."""
    return ctx.backend.settings.compute.force_config_drive or image.properties.get(_DRIVE_PROPERTY) == "mandatory"


def host_name_of(name: str, instance_uuid: str) -> str:
    """Return the server's name as a host name: at most 63 lower-case letters, digits and inner hyphens.

    If no character of the name is valid, the host name is formed from the uuid.
    """
    cleaned = _TO_HYPHEN.sub("-", name.encode("ascii", "ignore").decode().lower())
    cleaned = _NOT_IN_A_HOST_NAME.sub("", cleaned).strip("-")[:63].rstrip("-")
    return cleaned or f"server-{instance_uuid}"
