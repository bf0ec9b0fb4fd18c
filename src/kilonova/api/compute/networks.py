# SPDX-License-Identifier: Apache-2.0
"""Routes of networks up to 2.35. The network service decides which networks the caller can see."""

from typing import Any

from kilonova.api.compute.network_service import token_of
from kilonova.api.compute.removed import gone
from kilonova.api.http import Context, Endpoint, Reply, Request, Routes
from kilonova.api.microversion import Version
from kilonova.api.policy import PROJECT_READER_OR_ADMIN, rule
from kilonova.api.schemas import queries
from kilonova.deadline import heeding
from kilonova.errors import NotFound
from kilonova.network.client import Resource

_ALL, _ONE = "/os-networks", "/os-networks/{network_id}"
_P = "os_compute_api:os-networks"
LAST = Version(2, 35)
RULES = (
    rule(f"{_P}:list", PROJECT_READER_OR_ADMIN, "List networks", ("GET", _ALL)),
    rule(f"{_P}:show", PROJECT_READER_OR_ADMIN, "Show a network", ("GET", _ONE)),
)
#: Fields of nova-network, the network service that Nova once had. They are always null.
_NULL = (
    *("cidr", "netmask", "gateway", "broadcast", "dns1", "dns2"),
    *("cidr_v6", "netmask_v6", "gateway_v6"),
)
_NULL_FOR_ADMINISTRATORS = (
    *("created_at", "updated_at", "deleted_at", "deleted", "project_id", "host", "priority", "rxtx_base"),
    *("bridge", "bridge_interface", "vlan", "mtu", "multi_host", "injected"),
    *("vpn_public_address", "vpn_public_port", "vpn_private_address"),
    *("dhcp_start", "dhcp_server", "enable_dhcp", "share_address"),
)
_GONE = Endpoint(gone)


def list_networks(ctx: Context, request: Request) -> Reply:
    """GET /os-networks.  Until: 2.35."""
    del request
    ctx.authorize(f"{_P}:list")
    return Reply(200, {"networks": [_view(ctx, each) for each in heeding(visible_networks(ctx))]})


def show_network(ctx: Context, request: Request) -> Reply:
    """GET /os-networks/{network_id}.  Until: 2.35.  Errors: 404."""
    ctx.authorize(f"{_P}:show")
    return Reply(200, {"network": _view(ctx, find_network(ctx, request.path["network_id"]))})


def visible_networks(ctx: Context) -> list[Resource]:
    """Return the networks that the caller can see; without a network service there are none."""
    if ctx.backend.network is None:
        return []
    return list(ctx.backend.network.list("networks", token=token_of(ctx), fields=["id", "name"]))


def find_network(ctx: Context, network_id: str) -> Resource:
    """Return a network that the caller can see. Raises: NotFound."""
    if ctx.backend.network is None:
        raise NotFound(f"There is no network {network_id}.")
    try:
        return ctx.backend.network.show("networks", network_id, token=token_of(ctx))
    except NotFound:
        raise NotFound("Network not found") from None


def _view(ctx: Context, network: Resource) -> dict[str, Any]:
    null = (*_NULL, *_NULL_FOR_ADMINISTRATORS) if ctx.may("context_is_admin") else _NULL
    return {"id": network["id"], "label": network["name"], **dict.fromkeys(null)}


ROUTES: Routes = {
    _ALL: {"GET": Endpoint(list_networks, query=queries.NONE, until=LAST), "POST": _GONE},
    _ONE: {"GET": Endpoint(show_network, until=LAST), "DELETE": _GONE},
    f"{_ONE}/action": {"POST": _GONE},
    "/os-networks/add": {"POST": _GONE},
}
