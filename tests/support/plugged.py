# SPDX-License-Identifier: Apache-2.0
"""Servers with ports in the fake Neutron, for tests of routes that change ports of existing servers."""

from api.compute_cloud import Cloud
from kilonova.db import instance_networks
from kilonova.model.network_info import NetworkInfo
from kilonova.network.info import AttachedPort, describe
from support.fake_neutron import FakeNeutron


def plug(cloud: Cloud, neutron: FakeNeutron, server: str, *networks: str, project_id: str = "wonder") -> NetworkInfo:
    """Give a server a port on each network, and return its interfaces."""
    owner = {"device_id": server, "device_owner": "compute:nova"}
    ports = [neutron.make_port(network, project_id, **owner) for network in networks]
    info = describe(neutron, [AttachedPort(neutron.port(port), created=True) for port in ports])
    cloud.set_interfaces(server, info)
    return info


def cached(cloud: Cloud, server: str) -> NetworkInfo:
    """Return the cached interfaces of a server."""
    with cloud.database.read() as connection:
        return instance_networks.info_of(connection, server)
