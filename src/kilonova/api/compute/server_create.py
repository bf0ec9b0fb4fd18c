# SPDX-License-Identifier: Apache-2.0
"""POST /servers: from what a client sends to instances and one request spec.

Everything is checked before anything is stored; the instances, their request, their place in the group and their
workflows are then one transaction.
"""

import base64
import binascii
import re
import secrets
from dataclasses import dataclass
from typing import Any

from kilonova.api.compute.flavors import find_visible
from kilonova.api.compute.links import bookmark_links
from kilonova.api.http import Context, Reply, Request
from kilonova.api.schemas.types import as_bool
from kilonova.db import aggregates, compute_nodes, keypairs, server_groups, services
from kilonova.errors import Forbidden, InvalidRequest, NotFound
from kilonova.identifiers import new_uuid
from kilonova.model.flavor import Flavor
from kilonova.model.image import Image
from kilonova.model.instance import Instance, TaskState, VmState
from kilonova.model.request_spec import RequestSpec
from kilonova.scheduler.devices.numa_request import numa_request
from kilonova.scheduler.devices.pci_request import pci_requests, read_aliases

_GIB = 1024**3
_HINT_KEYS = ("os:scheduler_hints", "OS-SCH-HNT:scheduler_hints")
_NO_NETWORK_SERVICE = (
    "Invalid input for field/attribute networks. No network service is configured: "
    "leave networks out, or use 'auto' or 'none'."
)


@dataclass(frozen=True, slots=True)
class Target:
    """Where a request wants to go. ``forced`` hosts come from the colon form and bypass the filters."""

    zone: str | None = None
    forced_host: str | None = None
    forced_node: str | None = None
    requested_host: str | None = None
    requested_node: str | None = None


def create_server(ctx: Context, request: Request) -> Reply:
    """POST /servers.  Errors: 400, 403."""
    ctx.authorize("os_compute_api:servers:create")
    asked = request.body["server"]
    count = _count(asked)
    _refuse_what_needs_other_services(asked)
    target = _target(ctx, asked)
    flavor = _flavor(ctx, asked)
    image = _image(ctx, asked, flavor)
    _check_cells_and_devices(ctx, flavor, image)
    _check_key(ctx, asked)
    user_data = _user_data(asked)
    hints = _hints(request)
    group_uuid = _group(ctx, hints)
    if "hostname" in asked and count > 1:
        raise InvalidRequest("Invalid input for field/attribute hostname. It cannot be used with max_count above 1.")
    reservation_id = "r-" + secrets.token_hex(4)
    built = _instances(ctx, asked, flavor, image, target, user_data, count, reservation_id)
    spec = RequestSpec(
        flavor=flavor,
        image=image,
        project_id=ctx.project_id,
        user_id=ctx.user_id,
        request_id=ctx.request_id,
        instance_uuids=tuple(instance.uuid for instance in built),
        availability_zone=target.zone,
        hints=hints,
        force_host=target.forced_host,
        force_node=target.forced_node,
        requested_host=target.requested_host,
        requested_node=target.requested_node,
        remote_address=ctx.remote_address,
        is_admin=ctx.may("context_is_admin"),
    )
    ctx.backend.conductor.build(built, spec, group_uuid)
    if as_bool(asked.get("return_reservation_id", False)):
        return Reply(202, {"reservation_id": reservation_id})
    return _created(ctx, request, built[0], asked)


def _created(ctx: Context, request: Request, first: Instance, asked: dict[str, Any]) -> Reply:
    links = bookmark_links(request, f"servers/{first.uuid}")
    view: dict[str, Any] = {
        "id": first.uuid,
        "links": links,
        "OS-DCF:diskConfig": first.disk_config,
        "security_groups": asked.get("security_groups") or [{"name": "default"}],
    }
    if ctx.backend.settings.api.enable_instance_password:
        view["adminPass"] = asked.get("adminPass") or secrets.token_urlsafe(9)
    return Reply(202, {"server": view}, {"Location": links[0]["href"]})


def _count(asked: dict[str, Any]) -> int:
    """Return how many servers are made: ``max_count``, since no quota lowers it."""
    least = int(asked.get("min_count", 1))
    most = int(asked.get("max_count", least))
    for field, value in (("min_count", least), ("max_count", most)):
        if value < 1:
            raise InvalidRequest(f"Invalid input for field/attribute {field}. Value: {value}. It must be at least 1.")
    if least > most:
        raise InvalidRequest("Invalid input for field/attribute min_count. min_count must be <= max_count")
    return most


def _refuse_what_needs_other_services(asked: dict[str, Any]) -> None:
    networks = asked.get("networks")
    if isinstance(networks, list) and networks:
        raise InvalidRequest(_NO_NETWORK_SERVICE)
    names = [group.get("name") for group in asked.get("security_groups") or ()]
    if any(name != "default" for name in names):
        raise InvalidRequest("Invalid input for field/attribute security_groups. No network service is configured.")
    if asked.get("personality"):
        raise InvalidRequest(
            "Invalid input for field/attribute personality. File injection is not supported; use user_data."
        )
    if asked.get("block_device_mapping"):
        raise InvalidRequest("Invalid input for field/attribute block_device_mapping. No volume service is configured.")
    image_ref = asked.get("imageRef")
    for index, device in enumerate(asked.get("block_device_mapping_v2") or ()):
        is_image_boot = (
            device["source_type"] == "image"
            and device.get("destination_type", "local") == "local"
            and str(device.get("boot_index", 0)) == "0"
            and device.get("uuid") == image_ref
        )
        if not is_image_boot:
            raise InvalidRequest(
                f"Invalid input for field/attribute block_device_mapping_v2.{index}. "
                "No volume service is configured: only the local disk of the server's own image is supported."
            )


def _target(ctx: Context, asked: dict[str, Any]) -> Target:
    text = asked.get("availability_zone")
    settings = ctx.backend.settings.compute
    zone, host, node = split_zone(text) if text else (settings.default_schedule_zone, None, None)
    host_field, node_field = asked.get("host"), asked.get("hypervisor_hostname")
    if host or node:
        ctx.authorize("os_compute_api:servers:create:forced_host")
        if host_field or node_field:
            raise InvalidRequest(
                "Invalid input for field/attribute availability_zone. "
                "A host in it cannot be combined with host or hypervisor_hostname."
            )
    if host_field or node_field:
        ctx.authorize("compute:servers:create:requested_destination")
    with ctx.backend.database.read() as connection:
        if zone and not (host or node):
            check_zone(ctx, connection, zone)
        check_host(connection, "availability_zone", host, node)
        check_host(connection, "host" if host_field else "hypervisor_hostname", host_field, node_field)
    return Target(zone, host, node, host_field, node_field)


def split_zone(text: str) -> tuple[str | None, str | None, str | None]:
    """Read ``zone``, ``zone:host``, ``zone:host:node`` or ``zone::node``."""
    parts = text.split(":")
    if len(parts) > 3:
        raise InvalidRequest(
            f"Invalid input for field/attribute availability_zone. Value: {text}. "
            "Expected ZONE, ZONE:HOST or ZONE:HOST:NODE."
        )
    zone, host, node = (*parts, "", "")[:3]
    return zone or None, host or None, node or None


def check_zone(ctx: Context, connection: Any, zone: str) -> None:
    """Raise InvalidRequest unless some enabled host is in the zone."""
    settings = ctx.backend.settings.compute
    of_host = aggregates.zones_of_hosts(connection)
    available = {
        of_host.get(service.host, settings.default_availability_zone)
        for service in services.list_all(connection, binary="nova-compute")
        if not service.disabled
    }
    if zone not in available:
        raise InvalidRequest("The requested availability zone is not available", field="availability_zone")


def check_host(connection: Any, field: str, host: str | None, node: str | None) -> None:
    """Raise InvalidRequest naming ``field`` unless there is such a host and hypervisor; None is any."""
    if host is None and node is None:
        return
    for known in compute_nodes.list_all(connection):
        if (host is None or known.host.lower() == host.lower()) and (node is None or known.hypervisor_hostname == node):
            return
    wanted = " and ".join(f"{label} {name}" for label, name in (("host", host), ("node", node)) if name)
    raise InvalidRequest(f"Invalid input for field/attribute {field}. Compute {wanted} could not be found.")


def _flavor(ctx: Context, asked: dict[str, Any]) -> Flavor:
    flavor_id = str(asked["flavorRef"]).rstrip("/").rpartition("/")[2]
    try:
        flavor = find_visible(ctx, flavor_id)
    except NotFound as error:
        raise InvalidRequest(f"Invalid input for field/attribute flavorRef. {error.message}") from None
    if flavor.disabled:
        raise InvalidRequest(f"Invalid input for field/attribute flavorRef. Flavor {flavor_id} is disabled.")
    if flavor.root_gib == 0 and not ctx.may("os_compute_api:servers:create:zero_disk_flavor"):
        raise Forbidden("Only volume-backed servers are allowed for flavors with zero disk.")
    return flavor


def _image(ctx: Context, asked: dict[str, Any], flavor: Flavor) -> Image:
    image_ref = asked.get("imageRef") or ""
    if not image_ref:
        raise InvalidRequest(
            "Invalid input for field/attribute imageRef. A server needs an image: no volume service is configured."
        )
    try:
        image = ctx.backend.images.get(image_ref, token=ctx.credentials.token, project_id=ctx.project_id)
    except NotFound as error:
        raise InvalidRequest(f"Invalid input for field/attribute imageRef. {error.message}") from None
    if image.status != "active":
        raise InvalidRequest(f"Invalid input for field/attribute imageRef. Image {image.id} is not active.")
    if image.min_memory_mib > flavor.memory_mib:
        raise InvalidRequest(
            "Invalid input for field/attribute flavorRef. Flavor's memory is too small for requested image."
        )
    too_small = image.min_disk_gib > flavor.root_gib or image.size_bytes > flavor.root_gib * _GIB
    if flavor.root_gib and too_small:
        raise InvalidRequest(
            "Invalid input for field/attribute flavorRef. Flavor's disk is too small for requested image."
        )
    return image


def _check_cells_and_devices(ctx: Context, flavor: Flavor, image: Image) -> None:
    """Refuse what flavor and image contradict each other in, and devices that nobody has described."""
    numa_request(flavor, image)
    pci_requests(flavor, image, read_aliases(ctx.backend.settings.scheduler.pci_alias))


def _check_key(ctx: Context, asked: dict[str, Any]) -> None:
    name = asked.get("key_name")
    if name is None:
        return
    try:
        with ctx.backend.database.read() as connection:
            keypairs.get(connection, ctx.user_id, name)
    except NotFound:
        raise InvalidRequest("Invalid input for field/attribute key_name. Invalid key_name provided.") from None


def _user_data(asked: dict[str, Any]) -> str | None:
    text: str | None = asked.get("user_data")
    if text:
        try:
            base64.b64decode(text.encode("ascii"), validate=True)
        except (binascii.Error, UnicodeEncodeError):
            raise InvalidRequest("Invalid input for field/attribute user_data. It must be base64.") from None
    return text


def _hints(request: Request) -> dict[str, tuple[str, ...]]:
    given: dict[str, Any] = {}
    for key in _HINT_KEYS:
        given = given or request.body.get(key) or {}
    return {
        name: tuple(str(item) for item in value) if isinstance(value, list) else (_hint_text(value),)
        for name, value in given.items()
        if not name.startswith("_nova")
    }


def _hint_text(value: Any) -> str:
    return value if isinstance(value, str) else str(value)


def _group(ctx: Context, hints: dict[str, tuple[str, ...]]) -> str | None:
    group_uuid = next(iter(hints.get("group", ())), None)
    if group_uuid is None:
        return None
    try:
        with ctx.backend.database.read() as connection:
            group = server_groups.get(connection, group_uuid)
    except NotFound:
        group = None
    if group is None or group.project_id != ctx.project_id:
        raise InvalidRequest(
            "Invalid input for field/attribute os:scheduler_hints.group. "
            f"Instance group {group_uuid} could not be found."
        )
    return group.uuid


def _instances(
    ctx: Context,
    asked: dict[str, Any],
    flavor: Flavor,
    image: Image,
    target: Target,
    user_data: str | None,
    count: int,
    reservation_id: str,
) -> list[Instance]:
    built = []
    for index in range(count):
        name = asked["name"] if count == 1 else f"{asked['name']}-{index + 1}"
        instance_uuid = new_uuid()
        built.append(
            Instance(
                id=0,
                uuid=instance_uuid,
                name=name,
                hostname=asked.get("hostname") or host_name_of(name, instance_uuid),
                description=asked.get("description"),
                project_id=ctx.project_id,
                user_id=ctx.user_id,
                vm_state=VmState.BUILDING,
                task_state=TaskState.SCHEDULING,
                flavor=flavor,
                image_ref=image.id,
                image_properties=image.properties,
                key_name=asked.get("key_name"),
                user_data=user_data,
                config_drive="True" if as_bool(asked.get("config_drive") or False) else "",
                metadata=asked.get("metadata") or {},
                tags=tuple(dict.fromkeys(asked.get("tags") or ())),
                reservation_id=reservation_id,
                launch_index=index,
                availability_zone=target.zone,
                disk_config=asked.get("OS-DCF:diskConfig", "MANUAL"),
                access_ip_v4=asked.get("accessIPv4"),
                access_ip_v6=asked.get("accessIPv6"),
            )
        )
    return built


def host_name_of(name: str, instance_uuid: str) -> str:
    """Return a host name made from a server's name: lower-case letters, digits and inner hyphens, at most 63."""
    cleaned = re.sub(r"[ _.]", "-", name.encode("ascii", "ignore").decode().lower())
    cleaned = re.sub(r"[^a-z0-9-]", "", cleaned).strip("-")[:63].rstrip("-")
    return cleaned or f"server-{instance_uuid}"
