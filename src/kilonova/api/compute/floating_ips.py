# SPDX-License-Identifier: Apache-2.0
"""Routes of floating IPs up to 2.35. The network service owns the floating IPs and their quota."""

from typing import Any

from kilonova.api.compute.address_cache import refresh_addresses
from kilonova.api.compute.network_service import network_of, token_of
from kilonova.api.compute.schemas import floating_ips as schemas
from kilonova.api.http import Context, Endpoint, Reply, Request, Routes
from kilonova.api.microversion import Version
from kilonova.api.policy import PROJECT_MEMBER_OR_ADMIN, PROJECT_READER_OR_ADMIN, rule
from kilonova.api.schemas import queries
from kilonova.db import instances
from kilonova.deadline import heeding
from kilonova.errors import NotFound, OverQuota
from kilonova.network import floating_ips
from kilonova.network.floating_ips import FloatingIp, PoolExhausted

_ALL, _ONE = "/os-floating-ips", "/os-floating-ips/{floating_ip_id}"
_P = "os_compute_api:os-floating-ips"
_LAST = Version(2, 35)
RULES = (
    rule(f"{_P}:list", PROJECT_READER_OR_ADMIN, "List floating addresses", ("GET", _ALL)),
    rule(f"{_P}:create", PROJECT_MEMBER_OR_ADMIN, "Allocate a floating address", ("POST", _ALL)),
    rule(f"{_P}:show", PROJECT_READER_OR_ADMIN, "Show a floating address", ("GET", _ONE)),
    rule(f"{_P}:delete", PROJECT_MEMBER_OR_ADMIN, "Release a floating address", ("DELETE", _ONE)),
)


def list_floating_ips(ctx: Context, request: Request) -> Reply:
    """GET /os-floating-ips: those of the caller's project.  Until: 2.35."""
    del request
    ctx.authorize(f"{_P}:list")
    network = ctx.backend.network
    found = [] if network is None else floating_ips.of_project(network, ctx.project_id, token=token_of(ctx))
    return Reply(200, {"floating_ips": [_view(each) for each in heeding(found)]})


def show_floating_ip(ctx: Context, request: Request) -> Reply:
    """GET /os-floating-ips/{floating_ip_id}.  Until: 2.35.  Errors: 404."""
    ctx.authorize(f"{_P}:show")
    return Reply(200, {"floating_ip": _view(_find(ctx, request))})


def allocate_floating_ip(ctx: Context, request: Request) -> Reply:
    """POST /os-floating-ips.  Until: 2.35.

    Errors: 400; 403 over quota; 404 for an unknown pool, or one without a free address.
    """
    ctx.authorize(f"{_P}:create")
    network = network_of(ctx)
    asked = (request.body or {}).get("pool")
    pool = asked or ctx.backend.settings.neutron.default_floating_pool
    try:
        made = floating_ips.allocate(network, pool, token=token_of(ctx))
    except PoolExhausted:
        raise NotFound(f"No more floating IPs {f'in pool {asked}' if asked else 'available'}.") from None
    except OverQuota:
        raise OverQuota(f"IP allocation over quota{f' in pool {asked}' if asked else ''}.") from None
    return Reply(200, {"floating_ip": _view(made)})


def release_floating_ip(ctx: Context, request: Request) -> Reply:
    """DELETE /os-floating-ips/{floating_ip_id}.  Until: 2.35.

    Errors: 404, also if the floating IP is associated with a device that is not a server of the caller.
    """
    ctx.authorize(f"{_P}:delete")
    found = _find(ctx, request)
    if found.device_id is not None:
        _require_server(ctx, found.device_id)
    floating_ips.release(network_of(ctx), found, token=token_of(ctx))
    if found.device_id is not None:
        refresh_addresses(ctx, found.device_id)
    return Reply(202)


def _find(ctx: Context, request: Request) -> FloatingIp:
    floating_ip_id = request.path["floating_ip_id"]
    if ctx.backend.network is None:
        raise NotFound(f"There is no floating address {floating_ip_id}.")
    try:
        return floating_ips.get(ctx.backend.network, floating_ip_id, token=token_of(ctx))
    except NotFound:
        raise NotFound(f"Floating IP not found for ID {floating_ip_id}") from None


def _require_server(ctx: Context, device_id: str) -> None:
    """Raise NotFound unless a device is a server that the caller may see."""
    with ctx.read() as connection:
        instance = instances.find(connection, device_id)
    if instance is None or not ctx.sees(f"{_P}:delete", instance.project_id):
        raise NotFound(f"Instance {device_id} could not be found.")


def _view(found: FloatingIp) -> dict[str, Any]:
    return {
        "id": found.id,
        "ip": found.address,
        "pool": found.pool,
        "fixed_ip": found.fixed_address,
        "instance_id": found.device_id,
    }


ROUTES: Routes = {
    _ALL: {
        "GET": Endpoint(list_floating_ips, query=queries.NONE, until=_LAST),
        "POST": Endpoint(allocate_floating_ip, body=schemas.CREATE, until=_LAST),
    },
    _ONE: {
        "GET": Endpoint(show_floating_ip, until=_LAST),
        "DELETE": Endpoint(release_floating_ip, until=_LAST),
    },
}
