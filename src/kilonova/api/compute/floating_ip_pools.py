# SPDX-License-Identifier: Apache-2.0
"""GET /os-floating-ip-pools: the external networks from which floating IPs are taken. Until: 2.35."""

from kilonova.api.compute.network_service import token_of
from kilonova.api.http import Context, Endpoint, Reply, Request, Routes
from kilonova.api.microversion import Version
from kilonova.api.policy import ANYONE, rule
from kilonova.api.schemas import queries
from kilonova.network import floating_ips

_PATH, _RULE = "/os-floating-ip-pools", "os_compute_api:os-floating-ip-pools"
RULES = (rule(_RULE, ANYONE, "List pools of floating addresses", ("GET", _PATH)),)


def list_pools(ctx: Context, request: Request) -> Reply:
    """GET /os-floating-ip-pools.  Until: 2.35."""
    del request
    ctx.authorize(_RULE)
    network = ctx.backend.network
    names = [] if network is None else floating_ips.pools(network, token=token_of(ctx))
    return Reply(200, {"floating_ip_pools": [{"name": name} for name in names]})


ROUTES: Routes = {_PATH: {"GET": Endpoint(list_pools, query=queries.NONE, until=Version(2, 35))}}
