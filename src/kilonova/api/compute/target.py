# SPDX-License-Identifier: Apache-2.0
"""The destination that a request for new servers may name: availability zone, host, hypervisor node."""

from kilonova.api.compute.bodies.servers import NewServer
from kilonova.api.http import Context
from kilonova.api.validation import invalid_field
from kilonova.errors import InvalidRequest
from kilonova.records import dataclass


@dataclass(frozen=True, slots=True)
class Target:
    """Requested destination of new servers; None for parts that the request does not name.

    ``forced_host``, ``forced_node``: from an availability zone ZONE:HOST:NODE; they bypass the scheduler's filters.
    ``requested_host``, ``requested_node``: from the fields host and hypervisor_hostname; filters apply to them.
    """

    zone: str | None
    forced_host: str | None
    forced_node: str | None
    requested_host: str | None
    requested_node: str | None


def read_target(ctx: Context, asked: NewServer) -> Target:
    """Return the destination requested by ``POST /servers``. Raises: InvalidRequest, Forbidden."""
    text = asked.availability_zone
    settings = ctx.backend.settings.compute
    zone, host, node = split_zone(text) if text else (settings.default_schedule_zone, None, None)
    host_field, node_field = asked.host, asked.hypervisor_hostname
    if host or node:
        ctx.authorize("os_compute_api:servers:create:forced_host")
        if host_field or node_field:
            raise invalid_field("availability_zone", "ZONE:HOST cannot be combined with host or hypervisor_hostname.")
    if host_field or node_field:
        ctx.authorize("compute:servers:create:requested_destination")
    check_place(ctx, zone, host, node)
    _check_host(ctx, "host" if host_field else "hypervisor_hostname", host_field, node_field)
    return Target(zone, host, node, host_field, node_field)


def split_zone(text: str) -> tuple[str | None, str | None, str | None]:
    """Return zone, host and node of ``zone``, ``zone:host``, ``zone:host:node`` or ``zone::node``; None if absent."""
    parts = text.split(":")
    if len(parts) > 3:
        raise invalid_field("availability_zone", f"Value: {text}. Expected ZONE, ZONE:HOST or ZONE:HOST:NODE.")
    zone, host, node = (*parts, "", "")[:3]
    return zone or None, host or None, node or None


def check_place(ctx: Context, zone: str | None, host: str | None, node: str | None) -> None:
    """Raise InvalidRequest if host or node do not exist, or, without host and node, if the zone has no enabled host."""
    if zone and not (host or node):
        _check_zone(ctx, zone)
    _check_host(ctx, "availability_zone", host, node)


def _check_zone(ctx: Context, zone: str) -> None:
    """Raise InvalidRequest unless the zone has an enabled host."""
    zones = ctx.backend.mirror.directory().zones
    is_default = zone == ctx.backend.settings.compute.default_availability_zone
    if not (zones.get(zone) or (is_default and zones.get(None))):
        raise InvalidRequest("The requested availability zone is not available", field="availability_zone")


def _check_host(ctx: Context, field: str, host: str | None, node: str | None) -> None:
    """Raise InvalidRequest naming ``field`` if host or node do not exist. None stands for no requested host or node."""
    if host is None and node is None:
        return
    if not ctx.backend.mirror.directory().has(host, node):
        wanted = " and ".join(f"{label} {name}" for label, name in (("host", host), ("node", node)) if name)
        raise invalid_field(field, f"Compute {wanted} could not be found.")
