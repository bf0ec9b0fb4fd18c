# SPDX-License-Identifier: Apache-2.0
"""The routes below /os-hosts, which exist up to 2.42: list, show resources, enable and disable hosts.

From 2.43 on clients use /os-services instead.
"""

from collections.abc import Iterable
from typing import Any

from kilonova.api.compute.availability_zones import zone_of
from kilonova.api.compute.schemas import service_hosts as schemas
from kilonova.api.http import Context, Endpoint, Handler, Reply, Request, Routes
from kilonova.api.microversion import Version
from kilonova.api.policy import ADMIN, rule
from kilonova.api.schemas import queries
from kilonova.db import aggregates, compute_nodes, server_usage, services
from kilonova.db.core.transaction import Transaction
from kilonova.deadline import heeding
from kilonova.errors import InvalidRequest, NotFound, Unsupported
from kilonova.model.flavor import Flavor

_ALL, _ONE = "/os-hosts", "/os-hosts/{host_name}"
_P = "os_compute_api:os-hosts"
RULES = (
    rule(f"{_P}:list", ADMIN, "List hosts by service and zone", ("GET", _ALL)),
    rule(f"{_P}:show", ADMIN, "Show resources and usage of a host", ("GET", _ONE)),
    rule(f"{_P}:update", ADMIN, "Enable or disable a host", ("PUT", _ONE)),
    rule(f"{_P}:start", ADMIN, "Power a host on", ("GET", f"{_ONE}/startup")),
    rule(f"{_P}:shutdown", ADMIN, "Power a host off", ("GET", f"{_ONE}/shutdown")),
    rule(f"{_P}:reboot", ADMIN, "Reboot a host", ("GET", f"{_ONE}/reboot")),
)
_LAST = Version(2, 42)


def list_hosts(ctx: Context, request: Request) -> Reply:
    """GET /os-hosts.  Until: 2.42.  Lists enabled services with their hosts, optionally only those in one ``zone``."""
    ctx.authorize(f"{_P}:list")
    settings, wanted = ctx.backend.settings.compute, request.param("zone")
    with ctx.read() as connection:
        found = services.list_all(connection)
        zones = aggregates.zones_of_hosts(connection)
    hosts = []
    for service in heeding(found):
        zone = zone_of(service, zones, settings)
        if not service.disabled and (not wanted or zone == wanted):
            hosts.append({"host_name": service.host, "service": service.binary.removeprefix("nova-"), "zone": zone})
    return Reply(200, {"hosts": hosts})


def show_host(ctx: Context, request: Request) -> Reply:
    """GET /os-hosts/{host_name}.  Until: 2.42.  Errors: 404 for an unknown host, and for a host without a hypervisor.

    Shows CPU, memory and disk: the host's total, the present usage, and the sums of its servers' flavors, for the whole
    host and for each project.
    """
    ctx.authorize(f"{_P}:show")
    host = request.path["host_name"]
    with ctx.read() as connection:
        nodes = compute_nodes.list_by_host(connection, host)
        if not nodes:
            raise _unknown(host)
        node = nodes[0]
        usage = compute_nodes.usages(connection, {node.uuid})[node.uuid]
        servers = list(server_usage.on_host(connection, host))
    projects: dict[str, list[Flavor]] = {}
    for project_id, flavor in servers:
        projects.setdefault(project_id, []).append(flavor)
    return Reply(
        200,
        {
            "host": [
                _resource(host, "(total)", usage.vcpus, usage.memory_mib, usage.disk_gib),
                _resource(host, "(used_now)", usage.vcpus_used, usage.memory_mib_used, usage.disk_gib_used),
                _sum(host, "(used_max)", (flavor for _, flavor in servers)),
                *(_sum(host, project_id, flavors) for project_id, flavors in projects.items()),
            ]
        },
    )


def update_host(ctx: Context, request: Request) -> Reply:
    """PUT /os-hosts/{host_name}.  Until: 2.42.  ``status`` enables or disables the compute service.

    Errors: 404; 501 for ``maintenance_mode``, which no hypervisor supports.
    """
    ctx.authorize(f"{_P}:update")
    host, asked = request.path["host_name"], request.body
    disabled = str(asked.get("status", "")).lower() == "disable"

    def job(tx: Transaction) -> None:
        service = services.find_by_host(tx.connection, host)
        if service is None:
            raise _unknown(host)
        if "maintenance_mode" in asked:
            raise _not_possible()
        services.update(tx, service.uuid, disabled=disabled, reason=None)

    ctx.write(job)
    return Reply(200, {"host": host, "status": "disabled" if disabled else "enabled"})


def _power_action(name: str) -> Handler:
    """Return the handler of a power action on a host. The handler refuses, since no hypervisor supports the action."""

    def refuse(ctx: Context, request: Request) -> Reply:
        """Reply 501.  Errors: 400 for a host that is down, 404."""
        ctx.authorize(f"{_P}:{name}")
        host = request.path["host_name"]
        with ctx.read() as connection:
            service = services.find_by_host(connection, host)
        if service is None:
            raise _unknown(host)
        if not service.is_up:
            raise InvalidRequest(f"Compute service of {host} is unavailable at this time.")
        raise _not_possible()

    return refuse


def _unknown(host: str) -> NotFound:
    return NotFound(f"Compute host {host} could not be found.", host=host)


def _not_possible() -> Unsupported:
    return Unsupported("Unable to complete the requested operation: no hypervisor here supports it.")


def _sum(host: str, whose: str, flavors: Iterable[Flavor]) -> dict[str, Any]:
    totals = [0, 0, 0]
    for flavor in flavors:
        totals[0] += flavor.vcpus
        totals[1] += flavor.memory_mib
        totals[2] += flavor.root_gib + flavor.ephemeral_gib
    return _resource(host, whose, *totals)


def _resource(host: str, whose: str, vcpus: int, memory_mib: int, disk_gib: int) -> dict[str, Any]:
    figures = {"cpu": vcpus, "memory_mb": memory_mib, "disk_gb": disk_gib}
    return {"resource": {"host": host, "project": whose, **figures}}


ROUTES: Routes = {
    _ALL: {"GET": Endpoint(list_hosts, query=schemas.LIST, until=_LAST)},
    _ONE: {
        "GET": Endpoint(show_host, query=queries.NONE, until=_LAST),
        "PUT": Endpoint(update_host, body=schemas.UPDATE, until=_LAST),
    },
    **{
        f"{_ONE}/{word}": {"GET": Endpoint(_power_action(name), query=queries.NONE, until=_LAST)}
        for word, name in (("startup", "start"), ("shutdown", "shutdown"), ("reboot", "reboot"))
    },
}
