# SPDX-License-Identifier: Apache-2.0
"""Routes of the addresses of a server."""

from kilonova.api.compute.servers.addresses import addresses_view
from kilonova.api.compute.servers.servers import find_server
from kilonova.api.http import Context, Endpoint, Reply, Request, Routes
from kilonova.api.policy import PROJECT_READER_OR_ADMIN, rule
from kilonova.api.schemas import queries
from kilonova.db import instance_networks
from kilonova.errors import NotFound

_P = "os_compute_api:ips"
_ALL, _OF_ONE = "/servers/{server_id}/ips", "/servers/{server_id}/ips/{network}"
RULES = (
    rule(f"{_P}:index", PROJECT_READER_OR_ADMIN, "List the addresses of a server", ("GET", _ALL)),
    rule(f"{_P}:show", PROJECT_READER_OR_ADMIN, "List a server's addresses on a network", ("GET", _OF_ONE)),
)


def list_addresses(ctx: Context, request: Request) -> Reply:
    """GET /servers/{server_id}/ips.  Errors: 404 for an unknown server."""
    return Reply(200, {"addresses": _addresses(ctx, request, f"{_P}:index")})


def show_addresses(ctx: Context, request: Request) -> Reply:
    """GET /servers/{server_id}/ips/{network}; ``network`` is a name.  Errors: 404."""
    label = request.path["network"]
    found = _addresses(ctx, request, f"{_P}:show").get(label)
    if found is None:
        raise NotFound("Instance is not a member of specified network")
    return Reply(200, {label: found})


def _addresses(ctx: Context, request: Request, rule_name: str) -> dict[str, list[dict[str, object]]]:
    instance = find_server(ctx, request.path["server_id"], rule_name)
    with ctx.read() as connection:
        info = instance_networks.info_of(connection, instance.uuid)
    return addresses_view(info, extended=False)


ROUTES: Routes = {
    _ALL: {"GET": Endpoint(list_addresses, query=queries.NONE)},
    _OF_ONE: {"GET": Endpoint(show_addresses, query=queries.NONE)},
}
