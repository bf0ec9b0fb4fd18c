# SPDX-License-Identifier: Apache-2.0
"""Routes below /os-tenant-networks: the networks that the caller can see, with few fields. Until: 2.35."""

from typing import Any

from kilonova.api.compute.networks import LAST, find_network, visible_networks
from kilonova.api.compute.removed import gone
from kilonova.api.http import Context, Endpoint, Reply, Request, Routes
from kilonova.api.policy import PROJECT_READER_OR_ADMIN, rule
from kilonova.api.schemas import queries
from kilonova.deadline import heeding
from kilonova.network.client import Resource

_ALL, _ONE = "/os-tenant-networks", "/os-tenant-networks/{network_id}"
_P = "os_compute_api:os-tenant-networks"
RULES = (
    rule(f"{_P}:list", PROJECT_READER_OR_ADMIN, "List the networks of a project", ("GET", _ALL)),
    rule(f"{_P}:show", PROJECT_READER_OR_ADMIN, "Show a network of a project", ("GET", _ONE)),
)


def list_networks(ctx: Context, request: Request) -> Reply:
    """GET /os-tenant-networks.  Until: 2.35."""
    del request
    ctx.authorize(f"{_P}:list")
    return Reply(200, {"networks": [_view(each) for each in heeding(visible_networks(ctx))]})


def show_network(ctx: Context, request: Request) -> Reply:
    """GET /os-tenant-networks/{network_id}.  Until: 2.35.  Errors: 404."""
    ctx.authorize(f"{_P}:show")
    return Reply(200, {"network": _view(find_network(ctx, request.path["network_id"]))})


def _view(network: Resource) -> dict[str, Any]:
    # as in Nova, cidr is the text "None", not null
    return {"id": network["id"], "label": network["name"], "cidr": "None"}


ROUTES: Routes = {
    _ALL: {"GET": Endpoint(list_networks, query=queries.NONE, until=LAST), "POST": Endpoint(gone)},
    _ONE: {"GET": Endpoint(show_network, until=LAST), "DELETE": Endpoint(gone)},
}
