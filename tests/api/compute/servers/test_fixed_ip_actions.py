# SPDX-License-Identifier: Apache-2.0
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
import sqlalchemy as sa

from api.compute_cloud import Cloud, start_cloud
from api.compute_proxies import UNKNOWN
from kilonova.db.core import tables as t
from support.api_client import Answer
from support.fake_neutron import FakeNeutron
from support.plugged import plug


@pytest.fixture
def network(neutron: FakeNeutron) -> str:
    return neutron.make_network("own", "wonder", v4="10.1.0.0/29")


@pytest.fixture
def server(networked: Cloud, neutron: FakeNeutron, network: str) -> str:
    """Alice's server with a port on ``network``."""
    uuid = networked.add_server(None)
    plug(networked, neutron, uuid, network)
    return uuid


def add(cloud: Cloud, server: str, network: str) -> Answer:
    return cloud.member.post(f"/servers/{server}/action", {"addFixedIp": {"networkId": network}})


def remove(cloud: Cloud, server: str, address: str) -> Answer:
    return cloud.member.post(f"/servers/{server}/action", {"removeFixedIp": {"address": address}})


def addresses(cloud: Cloud, neutron: FakeNeutron, server: str) -> list[str]:
    """Return the addresses of a server, which are the same in Neutron and in the cache."""
    shown = cloud.member.get(f"/servers/{server}/ips").body["addresses"]
    listed = [each["addr"] for network in shown.values() for each in network]
    ports = neutron.ports_of(server)
    assert sorted(listed) == sorted(fixed["ip_address"] for port in ports for fixed in port["fixed_ips"])
    return listed


def test_a_server_gets_and_loses_an_address(networked: Cloud, neutron: FakeNeutron, server: str, network: str) -> None:
    (first,) = addresses(networked, neutron, server)
    assert add(networked, server, network).status == 202
    both = addresses(networked, neutron, server)
    assert (len(both), both[0], len(neutron.ports_of(server))) == (2, first, 1)
    assert remove(networked, server, first).status == 202
    assert addresses(networked, neutron, server) == both[1:]
    answer = remove(networked, server, first)
    assert (answer.status, answer.fault[1]) == (400, f"Instance {server} does not have fixed IP '{first}'.")
    with networked.database.read() as connection:
        rows = connection.execute(sa.select(t.instance_addresses.c.address)).scalars().all()
    assert list(rows) == both[1:], "servers are searched by their present addresses"


def test_the_next_subnet_is_taken_if_one_is_full(
    networked: Cloud, neutron: FakeNeutron, server: str, network: str
) -> None:
    statuses = [add(networked, server, network).status for _ in range(5)]
    assert statuses == [202] * 4 + [400], "5 addresses without the router's"
    answer = add(networked, server, network)
    assert answer.fault[1] == f"No fixed IP addresses available for network: {network}"
    neutron.create("subnets", {"network_id": network, "project_id": "wonder", "cidr": "10.2.0.0/24"})
    assert add(networked, server, network).status == 202
    assert addresses(networked, neutron, server)[-1].startswith("10.2.0.")


def test_networks_that_the_server_is_not_on(networked: Cloud, neutron: FakeNeutron, server: str) -> None:
    others = neutron.make_network("other", "wonder"), neutron.make_network("theirs", "elsewhere"), UNKNOWN
    for network in others:
        answer = add(networked, server, network)
        assert (answer.status, answer.fault[1]) == (404, f"Network could not be found for instance {server}.")
    assert networked.member.post(f"/servers/{server}/action", {"addFixedIp": {"networkId": 1}}).status == 404


def test_who_may_and_when(networked: Cloud, neutron: FakeNeutron, server: str, network: str) -> None:
    body = {"addFixedIp": {"networkId": network}}
    path = f"/servers/{server}/action"
    assert networked.as_user("mallory", "elsewhere").post(path, body).status == 404
    assert networked.as_user("alice", "wonder", "reader").post(path, body).status == 403
    assert networked.member.at("2.44").post(path, body).status == 404
    networked.database.write(lambda tx: tx.execute(sa.update(t.instances).values(locked_by="owner")))
    answer = networked.member.post(path, body)
    assert (answer.status, answer.fault[1]) == (409, f"Instance {server} is locked")
    assert remove(networked, server, addresses(networked, neutron, server)[0]).status == 409
    assert networked.admin.post(path, body).status == 202


class Busy(FakeNeutron):
    """A network service in which every port changes as soon as a user has read it."""

    def list(self, kind: str, *, token: str | None = None, **filters: object) -> Sequence[Mapping[str, Any]]:
        found = super().list(kind, token=token, **filters)
        for each in found if kind == "ports" and token is not None else ():
            self.update("ports", each["id"], {"name": "changed"})
        return found


def test_a_port_that_changes_meanwhile_is_not_overwritten(database_url: str) -> None:
    neutron = Busy()
    neutron.user("alice:wonder", "wonder")
    cloud = start_cloud(database_url, network=neutron)
    server, network = cloud.add_server(None), neutron.make_network("own", "wonder")
    (vif,) = plug(cloud, neutron, server, network)
    for answer in (add(cloud, server, network), remove(cloud, server, vif.subnets[0].addresses[0].address)):
        assert answer.status == 409
    assert len(addresses(cloud, neutron, server)) == 1
    cloud.database.close()
