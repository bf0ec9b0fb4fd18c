# SPDX-License-Identifier: Apache-2.0
"""Lists of availability zones: one for users, one with hosts for administrators. Aggregates' metadata define zones."""

from collections.abc import Mapping
from typing import Any

from kilonova.api.compute.times import stored_time
from kilonova.api.http import Context, Endpoint, Reply, Request, Routes
from kilonova.api.policy import ADMIN, ANYONE, rule
from kilonova.api.schemas import queries
from kilonova.config.compute import ComputeSettings
from kilonova.db import aggregates, services
from kilonova.deadline import heeding
from kilonova.model.host import COMPUTE, Service

RULES = (
    rule("os_compute_api:os-availability-zone:list", ANYONE, "List zones", ("GET", "/os-availability-zone")),
    rule(
        "os_compute_api:os-availability-zone:detail",
        ADMIN,
        "List zones with their hosts and services",
        ("GET", "/os-availability-zone/detail"),
    ),
)


def list_zones(ctx: Context, request: Request) -> Reply:
    """GET /os-availability-zone.  A zone with an enabled host is available, even if the host is down."""
    del request
    ctx.authorize("os_compute_api:os-availability-zone:list")
    settings = ctx.backend.settings.compute
    zones: dict[str, bool] = {}
    for name, is_available in ctx.backend.mirror.directory().zones.items():
        zone = settings.default_availability_zone if name is None else name
        zones[zone] = is_available or zones.get(zone, False)
    zones.pop(settings.internal_service_availability_zone, None)
    in_order = sorted(zones, key=zones.__getitem__, reverse=True)  # available zones first
    return Reply(200, {"availabilityZoneInfo": [_view(zone, available=zones[zone]) for zone in in_order]})


def list_zones_detail(ctx: Context, request: Request) -> Reply:
    """GET /os-availability-zone/detail.  Shows all zones, also the internal one, with each host's enabled services."""
    del request
    ctx.authorize("os_compute_api:os-availability-zone:detail")
    available, unavailable = _zones(ctx)
    views = []
    for zone, members in available.items():
        hosts: dict[str, dict[str, Any]] = {}
        for service in heeding(members):
            hosts.setdefault(service.host, {})[service.binary] = {
                "active": True,
                "available": service.is_up,
                "updated_at": stored_time(latest_news(service)),
            }
        views.append({**_view(zone, available=True), "hosts": hosts})
    views += [_view(zone, available=False) for zone in unavailable]
    return Reply(200, {"availabilityZoneInfo": views})


def zone_of(service: Service, zones: Mapping[str, str], settings: ComputeSettings) -> str:
    """Return the zone of a service. ``zones``: host → zone, only for hosts whose aggregates define a zone."""
    if service.binary != COMPUTE:
        return settings.internal_service_availability_zone
    return zones.get(service.host, settings.default_availability_zone)


def latest_news(service: Service) -> Any:
    """Return the time of the latest heartbeat or change of a service, or None if there was none."""
    return max((moment for moment in (service.last_seen_at, service.updated_at) if moment is not None), default=None)


def _zones(ctx: Context) -> tuple[dict[str, list[Service]], list[str]]:
    """Return zone → its enabled services, and a list of the zones whose services are all disabled."""
    with ctx.read() as connection:
        found, zones = services.list_all(connection), aggregates.zones_of_hosts(connection)
    available: dict[str, list[Service]] = {}
    disabled: list[str] = []
    for service in heeding(found):
        zone = zone_of(service, zones, ctx.backend.settings.compute)
        if service.disabled:
            disabled.append(zone)
        else:
            available.setdefault(zone, []).append(service)
    return available, [zone for zone in dict.fromkeys(disabled) if zone not in available]


def _view(zone: str, *, available: bool) -> dict[str, Any]:
    return {"zoneName": zone, "zoneState": {"available": available}, "hosts": None}


ROUTES: Routes = {
    "/os-availability-zone": {"GET": Endpoint(list_zones, query=queries.NONE)},
    "/os-availability-zone/detail": {"GET": Endpoint(list_zones_detail, query=queries.NONE)},
}
