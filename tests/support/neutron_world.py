# SPDX-License-Identifier: Apache-2.0
"""The fake Neutron or the real one with two projects, for tests whose expectations both meet."""

import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from keystoneauth1.adapter import Adapter
from keystoneauth1.session import Session
from keystoneauth1.token_endpoint import Token

from kilonova.identity.direct_connections import DirectConnections
from kilonova.network.client import NetworkClient
from kilonova.network.neutron import Neutron
from support.fake_neutron import FakeNeutron
from support.real_neutron import RealNeutron, start_neutron

HOST = {"binding:host_id": "node1"}


@dataclass
class World:
    """A client and two projects without resources. The token of a user is the id of the project."""

    client: NetworkClient
    project: str = field(default_factory=lambda: uuid.uuid4().hex)
    other: str = field(default_factory=lambda: uuid.uuid4().hex)

    def make(self, kind: str, **values: Any) -> Any:
        """Create a resource of the project as the service user."""
        return self.client.create(kind, {"project_id": self.project, **values})

    def network(self, cidr: str = "10.1.0.0/24", *, v6: bool = False, **values: Any) -> str:
        network: str = self.make("networks", **values)["id"]
        owner = {"network_id": network, "project_id": values.get("project_id", self.project)}
        self.make("subnets", ip_version=4, cidr=cidr, **owner)
        if v6:
            modes = {"ipv6_address_mode": "slaac", "ipv6_ra_mode": "slaac"}
            self.make("subnets", ip_version=6, cidr="fd00:1::/64", **owner, **modes)
        return network

    def external(self, name: str, cidr: str = "172.24.4.0/24") -> str:
        """Create an external network of another project; return its id."""
        return self.network(cidr, project_id=self.other, name=name, **{"router:external": True})

    def join(self, network: str, external: str) -> None:
        """Connect the subnets of a network with an external network by a router."""
        router = self.make("routers", external_gateway_info={"network_id": external})["id"]
        for subnet in self.client.list("subnets", network_id=network):
            self.client.call("PUT", f"/routers/{router}/add_router_interface", {"subnet_id": subnet["id"]})

    def bound(self, network: str, **values: Any) -> Any:
        """Create a port of a server, as Kilonova does."""
        server = {"device_id": str(uuid.uuid4()), "device_owner": "compute:nova"}
        return self.make("ports", network_id=network, **server, **HOST, **values)


@pytest.fixture(scope="session")
def neutron_with_users(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealNeutron]:
    with start_neutron(tmp_path_factory.mktemp("neutron"), "support.neutron_with_users") as neutron:
        yield neutron


@pytest.fixture(params=["fake", pytest.param("real", marks=pytest.mark.slow)])
def world(request: pytest.FixtureRequest) -> World:
    if request.param == "fake":
        fake = FakeNeutron()
        world = World(fake)
        for project in (world.project, world.other):
            fake.user(project, project)
        return world
    url = request.getfixturevalue("neutron_with_users").url
    session = Session(auth=Token(url, "service"), timeout=120, session=DirectConnections(4))
    return World(Neutron(Adapter(session, service_type="network"), retries=0))
