# SPDX-License-Identifier: Apache-2.0
"""Networks and security groups of a create request, checked with the rights of the caller."""

from kilonova.api.compute.bodies.servers import NewServer
from kilonova.api.compute.network_service import network_of, token_of
from kilonova.api.http import Context
from kilonova.errors import OverQuota
from kilonova.model.network_request import NO_NETWORKS, NetworkRequest
from kilonova.network.port_quota import servers_within_quota
from kilonova.network.requests import read_request

_ATTACH, _ATTACH_EXTERNAL = "os_compute_api:servers:create:attach_network", "network:attach_external_network"


def read_networks(ctx: Context, asked: NewServer, least: int, most: int) -> tuple[NetworkRequest, int]:
    """Return the networks of each new server, and the number of servers for which the quota of ports is enough.

    ``least``, ``most``: requested minimum and maximum number of servers. Without a network service, servers get no
    networks. Raises: InvalidRequest, Forbidden, Conflict, OverQuota, Unavailable.
    """
    if ctx.backend.network is None:
        return NO_NETWORKS, most
    if asked.networks and asked.networks != "none":
        ctx.authorize(_ATTACH)
    client, token = network_of(ctx), token_of(ctx)
    request = read_request(
        client,
        token,
        ctx.project_id,
        asked.networks,
        [group.name for group in asked.security_groups if group.name],
        most,
        external_allowed=may_attach_external(ctx),
    )
    count = servers_within_quota(client, token, ctx.project_id, request, most)
    if count < least:
        raise OverQuota("Maximum number of ports exceeded")
    return request, count


def may_attach_external(ctx: Context) -> bool:
    """Whether the caller may attach servers to external networks that are not shared."""
    return ctx.may(_ATTACH_EXTERNAL)
