# SPDX-License-Identifier: Apache-2.0
"""Servers as the API shows them at each microversion. Source: spec COMPUTE_API §1.2."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy.engine import Connection

from kilonova.api.compute.hints import shown_hints
from kilonova.api.compute.links import bookmark_links
from kilonova.api.compute.times import stored_time, whole_seconds
from kilonova.api.http import Context, Request
from kilonova.api.microversion import Version
from kilonova.db import aggregates, request_specs, services
from kilonova.db.instance_lists import NamedInstance
from kilonova.db.request_specs import ShownRequest
from kilonova.model.host import Service
from kilonova.model.instance import Instance, VmState, status_of

_SHOWS_PROGRESS = {"ACTIVE", "BUILD", "REBUILD", "RESIZE", "VERIFY_RESIZE", "MIGRATING"}
#: Up to 2.74 answers to changes of a server lack what extensions of the API had added to it: these, by prefix.
_NOT_AFTER_A_CHANGE = (
    "OS-EXT-AZ:", "OS-EXT-SRV-ATTR:", "OS-EXT-STS:", "OS-SRV-USG:", "config_drive", "host_status", "key_name",
    "os-extended-volumes:",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a page of servers needs besides the instances, read once for all of them."""

    zones: Mapping[str, str]
    services: Mapping[str, Service]
    requests: Mapping[str, ShownRequest]


def surroundings(connection: Connection, found: Sequence[Instance], version: Version) -> Surroundings:
    """Read zones, services and, from 2.3 on, the stored requests of the given instances."""
    hosts = {instance.host for instance in found if instance.host}
    return Surroundings(
        zones=aggregates.zones_of_hosts(connection, hosts) if hosts else {},
        services=services.computes_of(connection, hosts) if hosts and version >= Version(2, 16) else {},
        requests=request_specs.shown(connection, found) if version >= Version(2, 3) else {},
    )


def summary_view(request: Request, instance: Instance | NamedInstance) -> dict[str, Any]:
    """Return a server as ``GET /servers`` shows it."""
    return {"id": instance.uuid, "name": instance.name, "links": bookmark_links(request, f"servers/{instance.uuid}")}


def detail_view(
    ctx: Context, request: Request, instance: Instance, around: Surroundings, *, with_groups: bool = False
) -> dict[str, Any]:
    """Return a server as ``GET /servers/detail`` and, with groups, ``GET /servers/{id}`` show it."""
    version = request.version  # compared with constants here: a page has a thousand servers
    status = status_of(instance.vm_state, instance.task_state)
    asked = around.requests.get(instance.uuid)
    view: dict[str, Any] = {
        **summary_view(request, instance),
        "status": status,
        "tenant_id": instance.project_id,
        "user_id": instance.user_id,
        "metadata": dict(instance.metadata),
        "hostId": host_id(instance.project_id, instance.host),
        "image": _image(request, instance, asked),
        "flavor": _flavor(ctx, request, instance),
        "created": whole_seconds(instance.created_at),
        "updated": whole_seconds(instance.updated_at or instance.created_at),
        "addresses": {},
        "accessIPv4": instance.access_ip_v4 or "",
        "accessIPv6": instance.access_ip_v6 or "",
        "OS-DCF:diskConfig": instance.disk_config,
        "OS-EXT-AZ:availability_zone": _zone(ctx, instance, around),
        "config_drive": instance.config_drive,
        "key_name": instance.key_name,
        "OS-SRV-USG:launched_at": stored_time(instance.launched_at),
        "OS-SRV-USG:terminated_at": stored_time(instance.terminated_at),
        "OS-EXT-STS:task_state": instance.task_state and instance.task_state.value,
        "OS-EXT-STS:vm_state": instance.vm_state.value,
        "OS-EXT-STS:power_state": int(instance.power_state),
        "os-extended-volumes:volumes_attached": [],
    }
    if status in _SHOWS_PROGRESS:
        view["progress"] = instance.progress
    if instance.fault is not None and instance.vm_state in {VmState.ERROR, VmState.DELETED}:
        view["fault"] = _fault(ctx, instance)
    if ctx.may("os_compute_api:os-extended-server-attributes", project_id=instance.project_id):
        view |= _administrators_part(instance, asked, version)
    if version >= (2, 9):
        view["locked"] = instance.locked_by is not None
    if version >= (2, 16) and (shown := _shown_host_status(ctx, instance, around)) is not None:
        view["host_status"] = shown
    if version >= (2, 19):
        view["description"] = instance.description
    if version >= (2, 26):
        view["tags"] = list(instance.tags)
    if version >= (2, 63):
        view["trusted_image_certificates"] = list(asked.trusted_certs) if asked and asked.trusted_certs else None
    if version >= (2, 71) and with_groups:
        view["server_groups"] = [asked.group_uuid] if asked and asked.group_uuid else []
    if version >= (2, 73):
        view["locked_reason"] = instance.locked_reason
    if version >= (2, 90):
        view["OS-EXT-SRV-ATTR:hostname"] = instance.hostname
    if version >= (2, 96):
        view["pinned_availability_zone"] = asked.availability_zone if asked else None
    if version >= (2, 100):
        view["scheduler_hints"] = shown_hints(asked.hints if asked else {})
    return view


def updated_view(ctx: Context, request: Request, instance: Instance, around: Surroundings) -> dict[str, Any]:
    """Return a server as it is shown to whoever has just changed it: from 2.75 on all of it."""
    view = detail_view(ctx, request, instance, around, with_groups=True)
    if request.version >= Version(2, 75):
        return view
    return {name: value for name, value in view.items() if not name.startswith(_NOT_AFTER_A_CHANGE)}


def host_id(project_id: str, host: str | None) -> str:
    """Return a digest that tells a tenant which servers share a host without naming it; empty without a host."""
    return hashlib.sha224(f"{project_id}{host}".encode()).hexdigest() if host else ""


def host_status(instance: Instance, around: Surroundings) -> str:
    """Return the state of a server's host. Source: spec COMPUTE_API §1.2, row 2.16."""
    service = around.services.get(instance.host or "")
    if service is None:
        return ""
    if service.forced_down:
        return "DOWN"
    if service.disabled:
        return "MAINTENANCE"
    return "UP" if service.is_up else "UNKNOWN"


def _shown_host_status(ctx: Context, instance: Instance, around: Surroundings) -> str | None:
    """Return the state of the host as far as the caller may see it: all of it, only that it is unknown, or nothing."""
    rule = "os_compute_api:servers:show:host_status"
    if ctx.may(rule, project_id=instance.project_id):
        return host_status(instance, around)
    if ctx.may(f"{rule}:unknown-only", project_id=instance.project_id):
        status = host_status(instance, around)
        return status if status == "UNKNOWN" else None
    return None


def _zone(ctx: Context, instance: Instance, around: Surroundings) -> str:
    if instance.host:
        return around.zones.get(instance.host, ctx.backend.settings.compute.default_availability_zone)
    return instance.availability_zone or ""


def _image(request: Request, instance: Instance, asked: ShownRequest | None) -> Any:
    if not instance.image_ref:
        return ""
    bookmark = bookmark_links(request, f"images/{instance.image_ref}")[1:]
    view: dict[str, Any] = {"id": instance.image_ref, "links": bookmark}
    if request.version >= (2, 98):
        view["properties"] = dict(asked.image_properties) if asked else {}
    return view


def _flavor(ctx: Context, request: Request, instance: Instance) -> dict[str, Any]:
    flavor = instance.flavor
    if request.version < (2, 47):
        return {"id": flavor.flavor_id, "links": bookmark_links(request, f"flavors/{flavor.flavor_id}")[1:]}
    view: dict[str, Any] = {
        "vcpus": flavor.vcpus,
        "ram": flavor.memory_mib,
        "disk": flavor.root_gib,
        "ephemeral": flavor.ephemeral_gib,
        "swap": flavor.swap_mib,
        "original_name": flavor.name,
    }
    if ctx.may("os_compute_api:servers:show:flavor-extra-specs"):
        view["extra_specs"] = dict(flavor.extra_specs)
    return view


def _fault(ctx: Context, instance: Instance) -> dict[str, Any]:
    fault = instance.fault
    assert fault is not None
    view: dict[str, Any] = {"code": fault.code, "message": fault.message, "created": whole_seconds(fault.created_at)}
    if fault.details and (fault.code != 500 or ctx.may("os_compute_api:servers:show:fault_details")):
        view["details"] = fault.details
    return view


def _administrators_part(instance: Instance, asked: ShownRequest | None, version: Version) -> dict[str, Any]:
    view: dict[str, Any] = {
        "OS-EXT-SRV-ATTR:host": instance.host,
        "OS-EXT-SRV-ATTR:hypervisor_hostname": instance.node,
        "OS-EXT-SRV-ATTR:instance_name": instance.instance_name,
    }
    if version >= (2, 3):
        view |= {
            "OS-EXT-SRV-ATTR:hostname": instance.hostname,
            "OS-EXT-SRV-ATTR:kernel_id": "",
            "OS-EXT-SRV-ATTR:ramdisk_id": "",
            "OS-EXT-SRV-ATTR:launch_index": instance.launch_index,
            "OS-EXT-SRV-ATTR:reservation_id": instance.reservation_id,
            "OS-EXT-SRV-ATTR:root_device_name": "/dev/vda",
            "OS-EXT-SRV-ATTR:user_data": asked.user_data if asked else None,
        }
    return view
