# SPDX-License-Identifier: Apache-2.0
"""Networks and security groups of a create request, checked with the rights of the caller."""

from collections.abc import Collection, Mapping
from functools import partial

from kilonova.api.compute.bodies.servers import NewServer
from kilonova.api.compute.network_service import network_of, token_of
from kilonova.api.http import Context, Request
from kilonova.api.microversion import Version
from kilonova.db import provider_aggregates
from kilonova.errors import InvalidRequest, OverQuota
from kilonova.model.flavor import Flavor
from kilonova.model.image import Image
from kilonova.model.network_request import NO_NETWORKS, NetworkMode, NetworkRequest, RequestedNetwork
from kilonova.model.request_spec import RequestedNetwork as Demand
from kilonova.network.host_demands import Lookups, demands_of_request
from kilonova.network.port_quota import servers_within_quota
from kilonova.network.requests import read_request
from kilonova.scheduler.numa_request import numa_request

#: Since when ports may request resources of a new server's host.
_RESOURCE_REQUESTS = Version(2, 72)
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


def read_demands(
    ctx: Context, request: Request, networks: NetworkRequest, flavor: Flavor, image: Image
) -> tuple[Demand, ...]:
    """Return what the networks of new servers require of a host.

    Raises: InvalidRequest before microversion 2.72, if ports request resources; Unavailable.
    """
    if not networks.networks:
        return ()
    routed = ctx.backend.settings.scheduler.query_placement_for_routed_network_aggregates
    has_cells = numa_request(flavor, image) is not None
    lookups = Lookups(has_cells, partial(_aggregates_of, ctx) if routed else None)
    demands = demands_of_request(network_of(ctx), networks, lookups)
    if request.version < _RESOURCE_REQUESTS and any(demand.groups for demand in demands):
        raise InvalidRequest(
            "Creating servers with ports having resource requests, like a port with a QoS minimum bandwidth policy, is "
            "not supported until microversion 2.72."
        )
    return demands


def read_demand(ctx: Context, network: RequestedNetwork) -> Demand | None:
    """Return what a new interface of an existing server requires of its host; None if it requires nothing."""
    demands = demands_of_request(network_of(ctx), NetworkRequest(mode=NetworkMode.LISTED, networks=(network,)))
    return next(iter(demands), None)


def _aggregates_of(ctx: Context, segments: Collection[str]) -> Mapping[str, frozenset[str]]:
    with ctx.read() as connection:
        return provider_aggregates.of_providers(connection, segments)


def may_attach_external(ctx: Context) -> bool:
    """Whether the caller may attach servers to external networks that are not shared."""
    return ctx.may(_ATTACH_EXTERNAL)
