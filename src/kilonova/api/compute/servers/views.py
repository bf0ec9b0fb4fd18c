# SPDX-License-Identifier: Apache-2.0
"""Views of servers: their JSON form in replies at each microversion. Source: spec COMPUTE_API §1.2."""

import functools
import hashlib
from collections.abc import Mapping, Sequence
from enum import Enum, auto
from typing import Any

from sqlalchemy.engine import Connection

from kilonova.api.compute.hints import shown_hints
from kilonova.api.compute.links import bookmark_links
from kilonova.api.compute.servers.addresses import addresses_view, security_groups_view
from kilonova.api.compute.times import stored_time, whole_seconds
from kilonova.api.http import Context, Request
from kilonova.api.microversion import Version
from kilonova.db import aggregates, instance_networks, request_specs, services
from kilonova.db.instance_lists import NamedInstance
from kilonova.db.request_specs import ShownRequest
from kilonova.model.flavor import Flavor
from kilonova.model.host import Service
from kilonova.model.instance import Fault, Instance, VmState, status_of
from kilonova.model.network_info import NetworkInfo
from kilonova.records import dataclass

_SHOWS_PROGRESS = {"ACTIVE", "BUILD", "REBUILD", "RESIZE", "VERIFY_RESIZE", "MIGRATING"}
#: Prefixes of the server's fields that replies to updates and rebuilds omit before 2.75.
_NOT_AFTER_A_CHANGE = (
    "OS-EXT-AZ:", "OS-EXT-SRV-ATTR:", "OS-EXT-STS:", "OS-SRV-USG:", "config_drive", "host_status", "key_name",
    "os-extended-volumes:", "security_groups",
)  # fmt: skip


_HOST_STATUS = "os_compute_api:servers:show:host_status"
#: Maximum number of results of ``host_id`` that are cached, one for each pair of project and host.
_HOSTS_REMEMBERED = 20_000


class _HostStatus(Enum):
    """What the caller may see of the field host_status: nothing, only the value UNKNOWN, or every value."""

    HIDDEN = auto()
    UNKNOWN_ONLY = auto()
    SHOWN = auto()


@dataclass(frozen=True, slots=True)
class _Rights:
    """Permissions of the caller on the servers of one project."""

    attributes: bool
    host_status: _HostStatus


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Data for the views of a page of servers, in addition to the instances.

    ``zones``: host → availability zone. ``services``: host → compute service. ``requests``: server uuid → its request.
    ``networks``: server uuid → its cached interfaces.
    """

    zones: Mapping[str, str]
    services: Mapping[str, Service]
    requests: Mapping[str, ShownRequest]
    networks: Mapping[str, NetworkInfo]


def surroundings(connection: Connection, found: Sequence[Instance], version: Version) -> Surroundings:
    """Read zones and interfaces of instances; since 2.3 also create requests, and since 2.16 compute services."""
    hosts = {instance.host for instance in found if instance.host}
    return Surroundings(
        zones=aggregates.zones_of_hosts(connection, hosts) if hosts else {},
        services=services.computes_of(connection, hosts) if hosts and version >= Version(2, 16) else {},
        requests=request_specs.shown(connection, found) if version >= Version(2, 3) else {},
        networks=instance_networks.infos_of(connection, [instance.uuid for instance in found]),
    )


def summary_view(request: Request, instance: Instance | NamedInstance) -> dict[str, Any]:
    """Return a server's view in ``GET /servers``."""
    return {"id": instance.uuid, "name": instance.name, "links": bookmark_links(request, f"servers/{instance.uuid}")}


class Views:
    """Factory of the views of servers in one reply. It caches values that many servers of a page share."""

    def __init__(self, ctx: Context, request: Request, around: Surroundings) -> None:
        self._ctx = ctx
        self._request = request
        self._version = request.version
        self._around = around
        self._default_zone = ctx.backend.settings.compute.default_availability_zone
        self._rights: dict[str, _Rights] = {}
        self._images: dict[str, dict[str, Any]] = {}
        #: ``id()`` of a flavor object → the flavor's view. Servers share flavor objects, which the page keeps alive.
        self._flavors: dict[int, dict[str, Any]] = {}

    def detail(self, instance: Instance, *, with_groups: bool = False) -> dict[str, Any]:
        """Return a server's view in ``GET /servers/detail``, or, if ``with_groups``, in ``GET /servers/{id}``."""
        version = self._version  # compared with plain tuples for speed, as a page has up to 1000 servers
        status = status_of(instance.vm_state, instance.task_state)
        asked = self._around.requests.get(instance.uuid)
        rights = self._rights.get(instance.project_id) or self._rights_in(instance.project_id)
        interfaces = self._around.networks.get(instance.uuid, ())
        created = whole_seconds(instance.created_at)
        view: dict[str, Any] = {
            "id": instance.uuid,
            "name": instance.name,
            "links": bookmark_links(self._request, f"servers/{instance.uuid}"),
            "status": status,
            "tenant_id": instance.project_id,
            "user_id": instance.user_id,
            "metadata": instance.metadata,
            "hostId": host_id(instance.project_id, instance.host),
            "image": self._image(instance.image_ref, asked) if instance.image_ref else "",
            "flavor": self._flavors.get(id(instance.flavor)) or self._flavor(instance.flavor),
            "created": created,
            "updated": created if instance.updated_at is None else whole_seconds(instance.updated_at),
            "addresses": addresses_view(interfaces),
            "accessIPv4": instance.access_ip_v4 or "",
            "accessIPv6": instance.access_ip_v6 or "",
            "OS-DCF:diskConfig": instance.disk_config,
            "OS-EXT-AZ:availability_zone": self._zone(instance),
            "config_drive": instance.config_drive,
            "key_name": instance.key_name,
            "OS-SRV-USG:launched_at": stored_time(instance.launched_at),
            "OS-SRV-USG:terminated_at": stored_time(instance.terminated_at),
            "OS-EXT-STS:task_state": instance.task_state,
            "OS-EXT-STS:vm_state": instance.vm_state,
            "OS-EXT-STS:power_state": instance.power_state,
            "os-extended-volumes:volumes_attached": [],
        }
        if groups := security_groups_view(interfaces):
            view["security_groups"] = groups
        if status in _SHOWS_PROGRESS:
            view["progress"] = instance.progress
        if instance.fault is not None and instance.vm_state in {VmState.ERROR, VmState.DELETED}:
            view["fault"] = _fault(self._ctx, instance.fault)
        if rights.attributes:
            _add_administrators_part(view, instance, asked, version)
        if version >= (2, 9):
            view["locked"] = instance.locked_by is not None
        if rights.host_status is not _HostStatus.HIDDEN:
            shown = host_status(instance, self._around)
            if rights.host_status is _HostStatus.SHOWN or shown == "UNKNOWN":
                view["host_status"] = shown
        if version >= (2, 19):
            view["description"] = instance.description
        if version >= (2, 26):
            view["tags"] = instance.tags
        if version >= (2, 63):
            view["trusted_image_certificates"] = (asked and asked.trusted_certs) or None
        if version >= (2, 71) and with_groups:
            view["server_groups"] = [asked.group_uuid] if asked and asked.group_uuid else []
        if version >= (2, 73):
            view["locked_reason"] = instance.locked_reason
        if version >= (2, 90):
            view["OS-EXT-SRV-ATTR:hostname"] = instance.hostname
        if version >= (2, 96):
            view["pinned_availability_zone"] = asked.availability_zone if asked else None
        if version >= (2, 100):
            view["scheduler_hints"] = shown_hints(asked.hints) if asked else {}
        return view

    def updated(self, instance: Instance) -> dict[str, Any]:
        """Return a server's view after an update or a rebuild. Since 2.75 this is the view of ``GET /servers/{id}``."""
        view = self.detail(instance, with_groups=True)
        if self._version >= (2, 75):
            return view
        view["addresses"] = addresses_view(self._around.networks.get(instance.uuid, ()), extended=False)
        return {name: value for name, value in view.items() if not name.startswith(_NOT_AFTER_A_CHANGE)}

    def _rights_in(self, project_id: str) -> "_Rights":
        """Return the caller's permissions on the servers of a project."""
        may = functools.partial(self._ctx.may, project_id=project_id)
        status = _HostStatus.HIDDEN
        if self._version >= (2, 16):
            if may(_HOST_STATUS):
                status = _HostStatus.SHOWN
            elif may(f"{_HOST_STATUS}:unknown-only"):
                status = _HostStatus.UNKNOWN_ONLY
        rights = self._rights[project_id] = _Rights(may("os_compute_api:os-extended-server-attributes"), status)
        return rights

    def _zone(self, instance: Instance) -> str:
        if instance.host:
            return self._around.zones.get(instance.host, self._default_zone)
        return instance.availability_zone or ""

    def _image(self, image_ref: str, asked: ShownRequest | None) -> dict[str, Any]:
        view = self._images.get(image_ref)
        if view is None:
            bookmark = bookmark_links(self._request, f"images/{image_ref}")[1:]
            view = self._images[image_ref] = {"id": image_ref, "links": bookmark}
        if self._version >= (2, 98):
            return {**view, "properties": asked.image_properties if asked else {}}
        return view

    def _flavor(self, flavor: Flavor) -> dict[str, Any]:
        view = self._flavors[id(flavor)] = self._flavor_view(flavor)
        return view

    def _flavor_view(self, flavor: Flavor) -> dict[str, Any]:
        if self._version < (2, 47):
            links = bookmark_links(self._request, f"flavors/{flavor.flavor_id}")[1:]
            return {"id": flavor.flavor_id, "links": links}
        view: dict[str, Any] = {
            "vcpus": flavor.vcpus,
            "ram": flavor.memory_mib,
            "disk": flavor.root_gib,
            "ephemeral": flavor.ephemeral_gib,
            "swap": flavor.swap_mib,
            "original_name": flavor.name,
        }
        if self._ctx.may("os_compute_api:servers:show:flavor-extra-specs"):
            view["extra_specs"] = flavor.extra_specs
        return view


@functools.lru_cache(_HOSTS_REMEMBERED)
def host_id(project_id: str, host: str | None) -> str:
    """Return the field hostId, "" without a host. It is equal for all servers of a project on the same host."""
    return hashlib.sha224(f"{project_id}{host}".encode()).hexdigest() if host else ""


def host_status(instance: Instance, around: Surroundings) -> str:
    """Return a server's host_status: UP, UNKNOWN, DOWN, MAINTENANCE or "". Source: spec COMPUTE_API §1.2, row 2.16."""
    service = around.services.get(instance.host or "")
    if service is None:
        return ""
    if service.forced_down:
        return "DOWN"
    if service.disabled:
        return "MAINTENANCE"
    return "UP" if service.is_up else "UNKNOWN"


def _fault(ctx: Context, fault: Fault) -> dict[str, Any]:
    view: dict[str, Any] = {"code": fault.code, "message": fault.message, "created": whole_seconds(fault.created_at)}
    if fault.details and (fault.code != 500 or ctx.may("os_compute_api:servers:show:fault_details")):
        view["details"] = fault.details
    return view


def _add_administrators_part(
    view: dict[str, Any], instance: Instance, asked: ShownRequest | None, version: Version
) -> None:
    view["OS-EXT-SRV-ATTR:host"] = instance.host
    view["OS-EXT-SRV-ATTR:hypervisor_hostname"] = instance.node
    view["OS-EXT-SRV-ATTR:instance_name"] = instance.instance_name
    if version >= (2, 3):
        view["OS-EXT-SRV-ATTR:hostname"] = instance.hostname
        view["OS-EXT-SRV-ATTR:kernel_id"] = ""
        view["OS-EXT-SRV-ATTR:ramdisk_id"] = ""
        view["OS-EXT-SRV-ATTR:launch_index"] = instance.launch_index
        view["OS-EXT-SRV-ATTR:reservation_id"] = instance.reservation_id
        view["OS-EXT-SRV-ATTR:root_device_name"] = "/dev/vda"
        view["OS-EXT-SRV-ATTR:user_data"] = asked.user_data if asked else None
