# SPDX-License-Identifier: Apache-2.0
"""Routes of hypervisors. They show properties that agents report, and before 2.88 also the usage of each hypervisor."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from datetime import datetime
from typing import Any

import orjson

from kilonova.api.compute.identifiers import uuid_id
from kilonova.api.compute.links import next_page
from kilonova.api.compute.schemas import hypervisors as schemas
from kilonova.api.compute.uptimes import uptime_text
from kilonova.api.faults import HttpError
from kilonova.api.http import Context, Endpoint, Reply, Request, Routes, integer_param
from kilonova.api.microversion import Version
from kilonova.api.policy import ADMIN, rule
from kilonova.api.schemas import queries
from kilonova.api.schemas.types import as_bool
from kilonova.db import compute_nodes, host_agents, services
from kilonova.db.compute_nodes import NodeKey, NodeUsage
from kilonova.deadline import heeding
from kilonova.errors import InvalidRequest, NotFound
from kilonova.model.host import COMPUTE, ComputeNode, Service
from kilonova.records import dataclass

_ALL, _ONE = "/os-hypervisors", "/os-hypervisors/{hypervisor_id}"
RULES = (
    rule("os_compute_api:os-hypervisors:list", ADMIN, "List hypervisors", ("GET", _ALL)),
    rule("os_compute_api:os-hypervisors:list-detail", ADMIN, "List hypervisors in detail", ("GET", f"{_ALL}/detail")),
    rule("os_compute_api:os-hypervisors:statistics", ADMIN, "Show summed-up usage", ("GET", f"{_ALL}/statistics")),
    rule("os_compute_api:os-hypervisors:show", ADMIN, "Show a hypervisor", ("GET", _ONE)),
    rule("os_compute_api:os-hypervisors:uptime", ADMIN, "Show a hypervisor's uptime", ("GET", f"{_ONE}/uptime")),
    rule("os_compute_api:os-hypervisors:search", ADMIN, "Search hypervisors by name", ("GET", f"{_ONE}/search")),
    rule("os_compute_api:os-hypervisors:servers", ADMIN, "List servers by hypervisor", ("GET", f"{_ONE}/servers")),
)
_BY_UUID, _LAST_BY_NUMBER = Version(2, 53), Version(2, 52)
_LAST_WITH_USAGE = Version(2, 87)
#: Maximum number of uuids in a database query. A query for more hypervisors reads all hypervisors of the cloud instead.
_MOST_NAMED = 1000
#: Hypervisor type that drivers report if they simulate a host.
_SIMULATED = "fake"


@dataclass(frozen=True, slots=True)
class _Hypervisors:
    """Data of the hypervisors in a reply, read in one transaction."""

    nodes: Sequence[ComputeNode]
    numbers: Mapping[str, int]
    services: Mapping[str, Service]
    usages: Mapping[str, NodeUsage] = field(default_factory=dict)
    servers: Mapping[tuple[str, str], Sequence[tuple[str, str]]] = field(default_factory=dict)
    starts: Mapping[str, datetime] = field(default_factory=dict)


def list_hypervisors(ctx: Context, request: Request) -> Reply:
    """GET /os-hypervisors.  2.33 adds paging; 2.53 adds a search by name and lists of servers.  Errors: 400, 404."""
    ctx.authorize("os_compute_api:os-hypervisors:list")
    return _list(ctx, request, detail=False)


def list_hypervisors_detail(ctx: Context, request: Request) -> Reply:
    """GET /os-hypervisors/detail."""
    ctx.authorize("os_compute_api:os-hypervisors:list-detail")
    return _list(ctx, request, detail=True)


def show_hypervisor(ctx: Context, request: Request) -> Reply:
    """GET /os-hypervisors/{hypervisor_id}.  The id is a number until 2.52 and a uuid since 2.53.

    Errors: 400 for an invalid uuid (since 2.53), 404.
    """
    ctx.authorize("os_compute_api:os-hypervisors:show")
    found = _load(ctx, request, _one(request), detail=True)
    (node,) = found.nodes
    return Reply(200, {"hypervisor": _view(ctx, request, found, node, detail=True)})


def show_statistics(ctx: Context, request: Request) -> Reply:
    """GET /os-hypervisors/statistics.  Until: 2.87.  Shows the sums of all hypervisors on enabled hosts."""
    ctx.authorize("os_compute_api:os-hypervisors:statistics")
    found = _load(ctx, request, detail=True)
    enabled = [node for node in found.nodes if node.host in found.services and not found.services[node.host].disabled]
    total: dict[str, int] = dict.fromkeys(_usage_view(NodeUsage()), 0)
    for node in enabled:
        for name, figure in _usage_view(found.usages[node.uuid]).items():
            total[name] += figure
    return Reply(200, {"hypervisor_statistics": {"count": len(enabled), **total}})


def show_uptime(ctx: Context, request: Request) -> Reply:
    """GET /os-hypervisors/{hypervisor_id}/uptime.  Until: 2.87.  Errors: 400 if its host is down, 404, 501."""
    ctx.authorize("os_compute_api:os-hypervisors:uptime")
    found = _load(ctx, request, _one(request), detail=False, with_uptime=True)
    (node,) = found.nodes
    view = _view(ctx, request, found, node, detail=False)
    if view["state"] == "down":
        raise InvalidRequest(f"Compute service of {node.host} is unavailable at this time.")
    uptime = _uptime(ctx, found, node)
    if uptime is None:
        raise HttpError(501, "Virt driver does not implement uptime function.")
    return Reply(200, {"hypervisor": {**view, "uptime": uptime}})


def search_hypervisors(ctx: Context, request: Request) -> Reply:
    """GET /os-hypervisors/{pattern}/search.  Until: 2.52.  Errors: 404 if no hypervisor matches."""
    ctx.authorize("os_compute_api:os-hypervisors:search")
    found = _load(ctx, request, _matching(request.path["hypervisor_id"]), detail=False)
    return Reply(
        200, {"hypervisors": [_view(ctx, request, found, node, detail=False) for node in heeding(found.nodes)]}
    )


def list_servers(ctx: Context, request: Request) -> Reply:
    """GET /os-hypervisors/{pattern}/servers.  Until: 2.52.  Errors: 404 if no hypervisor matches."""
    ctx.authorize("os_compute_api:os-hypervisors:servers")
    found = _load(ctx, request, _matching(request.path["hypervisor_id"]), detail=False, with_servers=True)
    views = [_view(ctx, request, found, node, detail=False, with_servers=True) for node in heeding(found.nodes)]
    return Reply(200, {"hypervisors": views})


def _list(ctx: Context, request: Request, *, detail: bool) -> Reply:
    links: dict[str, Any] = {}

    def page(keys: Sequence[NodeKey]) -> Sequence[NodeKey]:
        def public(key: NodeKey) -> str:
            return str(_public_id(request, key.uuid, key.id))

        chosen, more = next_page(ctx, request, keys, public, "hypervisors", limit=integer_param(request, "limit"))
        links.update(more)
        return chosen

    pattern = request.param("hypervisor_hostname_pattern") if request.version >= _BY_UUID else None
    if pattern is not None:
        for name in ("limit", "marker"):
            if name in request.query:
                raise InvalidRequest(
                    f"Paging over hypervisors ({name}) with hypervisor_hostname_pattern is not supported.", field=name
                )
        found = _load(ctx, request, _matching(pattern), detail=detail)
    elif request.version >= Version(2, 33):
        found = _load(ctx, request, page, detail=detail)
    else:
        found = _load(ctx, request, detail=detail)
    views = [_view(ctx, request, found, node, detail=detail) for node in heeding(found.nodes)]
    return Reply(200, {"hypervisors": views, **links})


def _load(
    ctx: Context,
    request: Request,
    choose: Callable[[Sequence[NodeKey]], Sequence[NodeKey]] = lambda keys: keys,
    *,
    detail: bool,
    with_servers: bool = False,
    with_uptime: bool = False,
) -> _Hypervisors:
    """Read hypervisors and their data. ``choose``: receives the keys of all hypervisors, returns those to read."""
    with ctx.read() as connection:
        keys = choose(compute_nodes.keys(connection))
        uuids = hosts = None  # None selects all rows, which is faster than a long list of uuids
        if len(keys) <= _MOST_NAMED:
            uuids, hosts = {key.uuid for key in keys}, {key.host for key in keys}
        nodes = {node.uuid: node for node in compute_nodes.list_all(connection, uuids)}
        with_usage = detail and request.version <= _LAST_WITH_USAGE
        with_servers = with_servers or _wants_servers(request)
        with_uptime = with_uptime or (detail and request.version > _LAST_WITH_USAGE)
        return _Hypervisors(
            nodes=[nodes[key.uuid] for key in keys],
            numbers={key.uuid: key.id for key in keys},
            services={each.host: each for each in services.list_all(connection, hosts=hosts, binary=COMPUTE)},
            usages=compute_nodes.usages(connection, uuids) if with_usage else {},
            servers=compute_nodes.servers(connection, hosts) if with_servers else {},
            starts=host_agents.starts(connection, hosts) if with_uptime else {},
        )


def _wants_servers(request: Request) -> bool:
    return request.version >= _BY_UUID and as_bool(request.param("with_servers") or "false")


def _one(request: Request) -> Callable[[Sequence[NodeKey]], Sequence[NodeKey]]:
    """Return a function that selects the hypervisor with the id in the path, or raises NotFound.

    Raises: InvalidRequest for a malformed uuid, from microversion 2.53 on.
    """
    given = request.path["hypervisor_id"]
    wanted = uuid_id(given, "hypervisor id") if request.version >= _BY_UUID else given

    def choose(keys: Sequence[NodeKey]) -> Sequence[NodeKey]:
        for key in keys:
            if str(_public_id(request, key.uuid, key.id)) == wanted:
                return (key,)
        raise NotFound(f"Hypervisor with ID '{given}' could not be found.")

    return choose


def _matching(pattern: str) -> Callable[[Sequence[NodeKey]], Sequence[NodeKey]]:
    """Return a function that selects the hypervisors whose hostname contains ``pattern``, or raises NotFound."""

    def choose(keys: Sequence[NodeKey]) -> Sequence[NodeKey]:
        found = [key for key in keys if pattern in key.hypervisor_hostname]
        if not found:
            raise NotFound(f"No hypervisor matching '{pattern}' could be found.")
        return found

    return choose


def _public_id(request: Request, uuid: str, number: int) -> int | str:
    return uuid if request.version >= _BY_UUID else number


def _view(
    ctx: Context,
    request: Request,
    found: _Hypervisors,
    node: ComputeNode,
    *,
    detail: bool,
    with_servers: bool = False,
) -> dict[str, Any]:
    service = found.services.get(node.host)
    up = service is not None and service.is_up
    view: dict[str, Any] = {
        "id": _public_id(request, node.uuid, found.numbers[node.uuid]),
        "hypervisor_hostname": node.hypervisor_hostname,
        "state": "up" if up else "down",
        "status": "disabled" if service is None or service.disabled else "enabled",
    }
    if detail:
        capabilities = node.capabilities
        view["hypervisor_type"] = capabilities.hypervisor_type
        view["hypervisor_version"] = capabilities.hypervisor_version
        view["host_ip"] = node.host_ip
        view["service"] = {
            "host": node.host,
            "id": service and (service.uuid if request.version >= _BY_UUID else service.id),
            "disabled_reason": service and service.disabled_reason,
        }
        if request.version <= _LAST_WITH_USAGE:
            view |= _usage_view(found.usages[node.uuid])
            cpu_info = dict(capabilities.cpu_info)
            view["cpu_info"] = cpu_info if request.version >= Version(2, 28) else orjson.dumps(cpu_info).decode()
        else:
            view["uptime"] = _uptime(ctx, found, node)
    if with_servers or _wants_servers(request):
        there = found.servers.get((node.host, node.hypervisor_hostname), ())
        if there or request.version >= Version(2, 75):
            view["servers"] = [{"uuid": uuid, "name": name} for uuid, name in there]
    return view


def _usage_view(usage: NodeUsage) -> dict[str, int]:
    free_gib = usage.disk_gib - usage.disk_gib_used
    return {
        "vcpus": usage.vcpus,
        "vcpus_used": usage.vcpus_used,
        "memory_mb": usage.memory_mib,
        "memory_mb_used": usage.memory_mib_used,
        "free_ram_mb": usage.memory_mib - usage.memory_mib_used,
        "local_gb": usage.disk_gib,
        "local_gb_used": usage.disk_gib_used,
        "free_disk_gb": free_gib,
        "disk_available_least": free_gib,
        "current_workload": usage.busy_instances,
        "running_vms": usage.instances,
    }


def _uptime(ctx: Context, found: _Hypervisors, node: ComputeNode) -> str | None:
    """Return the uptime that the hypervisor reports, or None; for a simulated host, the uptime of the agent process."""
    uptime, since = node.capabilities.extra.get("uptime"), found.starts.get(node.host)
    if isinstance(uptime, str):
        return uptime
    if since is None or node.capabilities.hypervisor_type != _SIMULATED:
        return None
    return uptime_text(since, ctx.now())


ROUTES: Routes = {
    _ALL: {"GET": Endpoint(list_hypervisors, query=schemas.LIST)},
    f"{_ALL}/detail": {"GET": Endpoint(list_hypervisors_detail, query=schemas.LIST)},
    f"{_ALL}/statistics": {"GET": Endpoint(show_statistics, query=queries.NONE, until=_LAST_WITH_USAGE)},
    _ONE: {"GET": Endpoint(show_hypervisor, query=schemas.SHOW)},
    f"{_ONE}/uptime": {"GET": Endpoint(show_uptime, query=queries.NONE, until=_LAST_WITH_USAGE)},
    f"{_ONE}/search": {"GET": Endpoint(search_hypervisors, query=queries.NONE, until=_LAST_BY_NUMBER)},
    f"{_ONE}/servers": {"GET": Endpoint(list_servers, query=queries.NONE, until=_LAST_BY_NUMBER)},
}
