# SPDX-License-Identifier: Apache-2.0
from dataclasses import dataclass

import pytest

from api.compute_cloud import Cloud
from api.compute_proxies import UNKNOWN
from support.api_client import Answer, Client
from support.fake_neutron import FakeNeutron, Fault
from support.plugged import cached, plug


@dataclass
class Floating:
    """Alice's server on a network with IPv6 and IPv4, and her floating IP ``address``. ``fixed``: of IPv4."""

    cloud: Cloud
    neutron: FakeNeutron
    server: str
    address: str
    network: str
    fixed: str

    def add(self, client: Client | None = None, *, server: str | None = None, **changed: str) -> Answer:
        body = {"addFloatingIp": {"address": self.address, **changed}}
        return (client or self.cloud.member).post(f"/servers/{server or self.server}/action", body)

    def remove(self, address: str | None = None, *, server: str | None = None) -> Answer:
        body = {"removeFloatingIp": {"address": address or self.address}}
        return self.cloud.member.post(f"/servers/{server or self.server}/action", body)

    def shown(self, server: str | None = None) -> list[str]:
        """Return the floating addresses that a server shows."""
        addresses = self.cloud.member.get(f"/servers/{server or self.server}/ips").body["addresses"]
        floating = {each["floating_ip_address"] for each in self.neutron.store["floatingips"].values()}
        return [each["addr"] for listed in addresses.values() for each in listed if each["addr"] in floating]


@pytest.fixture
def floating(networked: Cloud, neutron: FakeNeutron) -> Floating:
    network, server = neutron.make_dual_stack("own", "wonder"), networked.add_server(None)
    neutron.make_external("nova")
    (vif,) = plug(networked, neutron, server, network)
    fixed = next(each.address for subnet, each in vif.addresses if subnet.version == 4)
    address = networked.member.post("/os-floating-ips").body["floating_ip"]["ip"]
    return Floating(networked, neutron, server, address, network, fixed)


def test_a_server_shows_its_floating_ip_at_once(floating: Floating) -> None:
    before = floating.cloud.admin.get(f"/servers/{floating.server}").body["server"]["updated"]
    assert (floating.add().status, floating.shown()) == (202, [floating.address])
    assert floating.add().status == 202, "again"
    assert floating.cloud.admin.get(f"/servers/{floating.server}").body["server"]["updated"] >= before
    (stored,) = floating.neutron.store["floatingips"].values()
    assert stored["fixed_ip_address"] == floating.fixed
    assert (floating.remove().status, floating.shown()) == (202, [])
    answer = floating.remove()
    words = f"Floating IP {floating.address} is not associated with instance {floating.server}."
    assert (answer.status, answer.fault[1]) == (409, words)


def test_the_fixed_address_may_be_chosen(floating: Floating) -> None:
    plug(floating.cloud, floating.neutron, floating.server, floating.network, floating.network)
    second = cached(floating.cloud, floating.server)[1].subnets[0].addresses[0].address
    assert floating.add(fixed_address=second).status == 202
    (stored,) = floating.neutron.store["floatingips"].values()
    assert stored["fixed_ip_address"] == second
    answer = floating.add(fixed_address="10.9.9.9")
    assert (answer.status, answer.fault[1]) == (400, "Specified fixed address not assigned to instance")
    found = cached(floating.cloud, floating.server)[0].addresses
    ipv6 = next(each.address for subnet, each in found if subnet.version == 6)
    answer = floating.add(fixed_address=ipv6.upper())
    target = f"fixed IP {ipv6} for instance {floating.server}"
    assert answer.status == 400
    assert answer.fault[1].startswith(f"Unable to associate floating IP {floating.address} to {target}. Error: ")


def test_a_floating_ip_moves_to_another_server(floating: Floating) -> None:
    other = floating.cloud.add_server(None)
    plug(floating.cloud, floating.neutron, other, floating.network)
    assert floating.add().status == 202
    assert floating.add(server=other).status == 202
    assert (floating.shown(), floating.shown(other)) == ([], [floating.address])
    assert floating.remove().status == 409
    assert floating.remove(server=other).status == 202


def test_a_server_forgets_a_floating_ip_that_is_released(floating: Floating) -> None:
    floating.add()
    (stored,) = floating.neutron.store["floatingips"].values()
    assert floating.cloud.member.delete(f"/os-floating-ips/{stored['id']}").status == 202
    assert floating.shown() == []


def test_a_second_floating_ip_of_a_fixed_address(floating: Floating) -> None:
    floating.add()
    second = floating.cloud.member.post("/os-floating-ips").body["floating_ip"]["ip"]
    answer = floating.add(address=second)
    assert answer.status == 400
    assert "already has a floating IP" in answer.fault[1]
    assert floating.shown() == [floating.address]


def test_servers_without_an_address_for_it(floating: Floating) -> None:
    cloud, neutron = floating.cloud, floating.neutron
    without = cloud.add_server(None)
    answer = floating.add(server=without)
    assert (answer.status, answer.fault[1]) == (400, "Instance network is not ready yet")
    plug(cloud, neutron, without, neutron.make_network("empty", "wonder", v4=None))
    answer = floating.add(server=without)
    assert (answer.status, answer.fault[1]) == (400, "No fixed IPs associated to instance")
    plug(cloud, neutron, without, neutron.make_network("six", "wonder", v4=None, v6="fd00:2::/64"))
    words = "Instance has no fixed IPv4 addresses to associate."
    answer = floating.add(server=without)
    assert (answer.status, answer.fault[1].endswith(words)) == (400, True)


def test_unknown_and_foreign_floating_ips_and_servers(floating: Floating) -> None:
    floating.cloud.as_user("mallory", "elsewhere").post("/os-floating-ips")
    foreign = next(
        each["floating_ip_address"]
        for each in floating.neutron.store["floatingips"].values()
        if each["project_id"] == "elsewhere"
    )
    for address in ("172.24.4.250", foreign):
        answer = floating.add(address=address)
        assert (answer.status, answer.fault[1]) == (404, "floating IP not found")
        answer = floating.remove(address)
        assert (answer.status, answer.fault[1]) == (404, f"Floating IP not found for address {address}.")
    assert floating.add(server=UNKNOWN).status == floating.remove(server=UNKNOWN).status == 404
    assert floating.add(floating.cloud.as_user("mallory", "elsewhere")).status == 404
    assert floating.add(floating.cloud.as_user("alice", "wonder", "reader")).status == 403
    assert floating.add(floating.cloud.member.at("2.44")).status == 404
    assert floating.add(address="nonsense").status == 400


def test_the_service_may_fail(floating: Floating) -> None:
    floating.neutron.faults.plan("PUT floatingips", Fault.ERROR)
    assert floating.add().status == 503
    assert floating.shown() == []
    floating.neutron.faults.plan("GET ports", Fault.ERROR)
    assert floating.add().status == 202, "only the cache is not renewed"
    assert floating.shown() == []
    assert (floating.add().status, floating.shown()) == (202, [floating.address])
