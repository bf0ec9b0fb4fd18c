# SPDX-License-Identifier: Apache-2.0
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from kilonova.errors import Conflict, InvalidRequest, NotFound, OverQuota
from kilonova.network import floating_ips
from kilonova.network.floating_ips import FloatingIp, PoolExhausted
from support.fake_neutron import FakeNeutron
from support.neutron_world import World

UNKNOWN = "5b674f73-0000-4000-8000-000000000000"


def allocate(world: World, pool: str) -> FloatingIp:
    return floating_ips.allocate(world.client, pool, token=world.project)


def test_from_allocation_to_release(world: World) -> None:
    client, token, name = world.client, world.project, f"pool-{world.project}"
    network, external = world.network(), world.external(name)
    world.join(network, external)
    assert name in floating_ips.pools(client, token=token)

    made = allocate(world, name)
    assert made == FloatingIp(id=made.id, address=made.address, pool=name)

    port = world.bound(network)
    (fixed,) = (each["ip_address"] for each in port["fixed_ips"])
    floating_ips.associate(client, made, port["id"], fixed, token=token)
    used = replace(made, fixed_address=fixed, port_id=port["id"], device_id=port["device_id"])
    assert floating_ips.get(client, made.id, token=token) == used
    assert floating_ips.find(client, made.address, token=token) == used
    assert floating_ips.of_project(client, world.project, token=token) == [used]
    with pytest.raises(Conflict, match="already has a floating IP"):
        floating_ips.associate(client, allocate(world, external), port["id"], fixed, token=token)
    with pytest.raises(InvalidRequest):
        floating_ips.associate(client, used, port["id"], "10.1.0.250", token=token)

    floating_ips.disassociate(client, used, token=token)
    assert floating_ips.get(client, made.id, token=token) == made
    floating_ips.associate(client, made, port["id"], fixed, token=token)
    floating_ips.release(client, made, token=token)
    for gone in (lambda: floating_ips.release(client, made, token=token), lambda: find(world, made)):
        with pytest.raises(NotFound, match=f"Floating IP not found for address {made.address}."):
            gone()


def find(world: World, wanted: FloatingIp) -> FloatingIp:
    return floating_ips.find(world.client, wanted.address, token=world.project)


def test_floating_ips_of_another_project_do_not_exist(world: World) -> None:
    made = allocate(world, world.external(f"pool-{world.project}"))
    assert floating_ips.of_project(world.client, world.project, token=world.other) == []
    for ask in (
        lambda: floating_ips.get(world.client, made.id, token=world.other),
        lambda: floating_ips.get(world.client, UNKNOWN, token=world.project),
        lambda: floating_ips.find(world.client, made.address, token=world.other),
        lambda: floating_ips.release(world.client, made, token=world.other),
    ):
        with pytest.raises(NotFound):
            ask()


def test_pools_that_are_unknown_ambiguous_empty_or_over_quota(world: World) -> None:
    name = f"pool-{world.project}"
    for unknown in (name, UNKNOWN, world.network()):
        with pytest.raises(NotFound, match=r"Floating IP pool not found\."):
            allocate(world, unknown)
    small = world.external(name, "172.24.4.0/30")
    allocate(world, name)
    with pytest.raises(PoolExhausted):
        allocate(world, name)
    large = world.external(name, "172.24.5.0/24")
    with pytest.raises(InvalidRequest, match="Multiple floating IP pools matches found for name"):
        allocate(world, name)
    assert allocate(world, large).pool == name
    with pytest.raises(PoolExhausted):
        allocate(world, small)
    world.client.update("quotas", world.project, {"floatingip": 2})
    with pytest.raises(OverQuota):
        allocate(world, large)


def test_a_pool_without_a_name_is_named_by_its_id(world: World) -> None:
    external = world.external("")
    assert external in floating_ips.pools(world.client, token=world.project)
    assert allocate(world, external).pool == external


class Detailed(FakeNeutron):
    """Neutron with the extension fip-port-details."""

    def list(self, kind: str, *, token: str | None = None, **filters: object) -> Sequence[Mapping[str, Any]]:
        found = super().list(kind, token=token, **filters)
        if kind != "floatingips":
            return found
        return [{**each, "port_details": each["port_id"] and {"device_id": "the-server"}} for each in found]


def test_devices_are_not_asked_for_if_they_are_known() -> None:
    neutron = Detailed()
    neutron.user("token", "demo")
    neutron.make_external("public")
    made = floating_ips.allocate(neutron, "public", token="token")
    floating_ips.associate(neutron, made, neutron.make_port(neutron.make_network()), "10.1.0.2", token="token")
    assert floating_ips.find(neutron, made.address, token="token").device_id == "the-server"
    assert neutron.faults.count("GET ports") == 0


class WithoutRouters(FakeNeutron):
    """Neutron without the router extension."""

    def list(self, kind: str, *, token: str | None = None, **filters: object) -> Sequence[Mapping[str, Any]]:
        if kind == "floatingips":
            raise NotFound("The resource could not be found.")
        return super().list(kind, token=token, **filters)


def test_without_routers_there_are_no_floating_ips() -> None:
    neutron = WithoutRouters()
    neutron.user("token", "demo")
    assert floating_ips.of_project(neutron, "demo", token="token") == []
    with pytest.raises(NotFound, match="Floating IP not found for address"):
        floating_ips.find(neutron, "172.24.4.2", token="token")
