# SPDX-License-Identifier: Apache-2.0
"""Optional parts of Neutron's API."""

from kilonova.network.client import NetworkClient

DNS = "dns-integration"
#: Ports may request resources of Placement's providers.
RESOURCE_REQUEST = "port-resource-request"
#: Subnets may belong to segments of a routed network.
SEGMENT = "segment"


def has_extension(client: NetworkClient, alias: str) -> bool:
    """Whether the network service has an extension."""
    return any(each["alias"] == alias for each in client.list("extensions"))
