# SPDX-License-Identifier: Apache-2.0
"""What ports and networks require of hosts: request groups, PCI devices, segments, cards."""

from collections.abc import Collection, Mapping
from uuid import uuid4

import pytest
from keystoneauth1.adapter import Adapter
from keystoneauth1.session import Session
from keystoneauth1.token_endpoint import Token

from kilonova.errors import InvalidRequest
from kilonova.model.network_request import NetworkMode, NetworkRequest, RequestedNetwork
from kilonova.network import ports
from kilonova.network.host_demands import HINTS, Lookups, demands_of_request, demands_of_server, may_demand
from kilonova.network.info import AttachedPort, describe
from kilonova.network.neutron import Neutron
from kilonova.network.port_owner import PortOwner
from support.fake_neutron import FakeNeutron
from support.neutron_world import World
from support.real_neutron import RealNeutron

FLAT = {"provider:network_type": "flat", "provider:physical_network": "public"}


@pytest.fixture
def fake() -> FakeNeutron:
    return FakeNeutron()


def asks(*items: RequestedNetwork) -> NetworkRequest:
    return NetworkRequest(mode=NetworkMode.LISTED, networks=items)


def port(fake: FakeNeutron, network: str, vnic: str = "normal", **values: object) -> RequestedNetwork:
    port_id = fake.make_port(network, **{"binding:vnic_type": vnic, **values})
    return RequestedNetwork(network_id=network, port_id=port_id, demands=True)


def test_groups_of_a_port_are_those_of_its_request(fake: FakeNeutron) -> None:
    item = port(fake, fake.make_network(**FLAT), qos_policy_id=fake.make_policy(egress=5, ingress=6, packets=7))
    (demand,) = demands_of_request(fake, asks(item))
    bandwidth, packets = demand.groups
    assert bandwidth.resources == {"NET_BW_EGR_KILOBIT_PER_SEC": 5, "NET_BW_IGR_KILOBIT_PER_SEC": 6}
    assert bandwidth.required == {"CUSTOM_PHYSNET_PUBLIC", "CUSTOM_VNIC_TYPE_NORMAL"}
    assert packets.resources == {"NET_PACKET_RATE_KILOPACKET_PER_SEC": 7}
    assert demand.same_subtree == {bandwidth.suffix, packets.suffix}
    assert {group.port_id for group in demand.groups} == {demand.port_id} == {item.port_id}


def test_the_format_without_groups_is_one_group_named_after_the_port(fake: FakeNeutron) -> None:
    fake.ports.groups = False
    item = port(fake, fake.make_network(), qos_policy_id=fake.make_policy(egress=5))
    (demand,) = demands_of_request(fake, asks(item))
    (group,) = demand.groups
    assert (group.suffix, group.resources) == (item.port_id, {"NET_BW_EGR_KILOBIT_PER_SEC": 5})
    assert demand.same_subtree == frozenset()


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        ({"binding:vnic_type": "normal", "qos_policy_id": None, "qos_network_policy_id": None}, False),
        ({"binding:vnic_type": "normal", "qos_policy_id": "p"}, True),
        ({"binding:vnic_type": "normal", "qos_policy_id": None, "qos_network_policy_id": "p"}, True),
        ({"binding:vnic_type": "direct", "qos_policy_id": None}, True),
        ({"binding:vnic_type": "normal"}, True),
    ],
)
def test_a_port_tells_its_user_whether_it_may_demand_something(
    fake: FakeNeutron, shown: dict[str, object], expected: bool
) -> None:
    assert may_demand(fake, shown) is expected


def test_a_port_that_needs_a_pci_device_names_its_physical_network(fake: FakeNeutron) -> None:
    profile = {"binding:profile": {"trusted": "true"}, "numa_affinity_policy": "required"}
    (demand,) = demands_of_request(fake, asks(port(fake, fake.make_network(**FLAT), "direct", **profile)))
    assert (demand.vnic_type, demand.physical_network, demand.trusted) == ("direct", "public", True)
    assert demand.numa_policy == "required"
    accelerated = port(fake, fake.make_network(v4="10.2.0.0/24"), "accelerator-direct")
    with pytest.raises(InvalidRequest, match="no accelerator service"):
        demands_of_request(fake, asks(accelerated))


def test_cards_are_looked_up_for_all_networks(fake: FakeNeutron) -> None:
    flat, overlay = fake.make_network(**FLAT), fake.make_network(v4="10.2.0.0/24")
    request = asks(RequestedNetwork(network_id=flat), RequestedNetwork(network_id=overlay))
    assert demands_of_request(fake, request) == ()
    fake.faults.calls.clear()
    found = demands_of_request(fake, request, Lookups(cards=True))
    assert [(each.physical_network, each.tunneled) for each in found] == [("public", False), (None, True)]
    assert fake.faults.counts() == {"GET networks": 1}


def test_segments_of_a_routed_network_bring_their_aggregates(fake: FakeNeutron) -> None:
    network = fake.make_network(**FLAT, v6="fd00:1::/64")
    for number, subnet in enumerate(fake.store["subnets"].values()):
        subnet["segment_id"] = f"segment{number}"
    aggregates = {"segment0": frozenset({"a"}), "segment1": frozenset({"b", "c"})}

    def of(segments: Collection[str]) -> Mapping[str, frozenset[str]]:
        return {segment: aggregates[segment] for segment in segments if segment in aggregates}

    lookups = Lookups(aggregates_of=of)
    (demand,) = demands_of_request(fake, asks(RequestedNetwork(network_id=network)), lookups)
    assert demand.segments == (frozenset({"a"}), frozenset({"b", "c"}))
    given = port(fake, network)
    (demand,) = demands_of_request(fake, asks(given), lookups)
    assert demand.segments == (frozenset({"a"}),), "the segment of its first address"
    del aggregates["segment0"]
    (demand,) = demands_of_request(fake, asks(given), lookups)
    assert demand.segments == (frozenset(),)
    plain = fake.make_network(v4="10.2.0.0/24")
    (demand,) = demands_of_request(fake, asks(RequestedNetwork(network_id=plain)), lookups)
    assert demand.segments == ()


def test_a_server_that_moves_asks_for_its_present_ports(fake: FakeNeutron) -> None:
    network = fake.make_network(**FLAT)
    plain, special = (
        fake.make_port(network),
        fake.make_port(network, qos_policy_id=fake.make_policy(egress=1)),
    )
    info = describe(fake, [AttachedPort(fake.port(each), created=False) for each in (plain, special)])
    assert [each.port_id for each in demands_of_server(fake, info)] == [special]
    fake.delete("ports", special)
    assert demands_of_server(fake, info) == ()


@pytest.mark.slow
def test_neutron_shows_what_a_port_with_a_minimum_bandwidth_requests(neutron_with_users: RealNeutron) -> None:
    session = Session(auth=Token(neutron_with_users.url, "service"), timeout=120)
    client = Neutron(Adapter(session, service_type="network"), retries=0)
    world = World(client)
    policy = client.call("POST", "/qos/policies", {"policy": {"name": "guaranteed", "project_id": world.project}})
    policy_id = policy["policy"]["id"]
    for kind, rule in (
        ("minimum_bandwidth", {"min_kbps": 1_000, "direction": "egress"}),
        ("minimum_packet_rate", {"min_kpps": 5, "direction": "any"}),
    ):
        client.call("POST", f"/qos/policies/{policy_id}/{kind}_rules", {f"{kind}_rule": rule})
    network = world.network(**FLAT)
    port = world.make("ports", network_id=network, qos_policy_id=policy_id)
    seen = client.list("ports", token=world.project, id=[port["id"]], fields=["id", *HINTS])[0]
    assert may_demand(client, seen)
    item = RequestedNetwork(network_id=network, port_id=port["id"], demands=True)
    (demand,) = demands_of_request(client, asks(item))
    asked = {name: amount for group in demand.groups for name, amount in group.resources.items()}
    assert asked == {"NET_BW_EGR_KILOBIT_PER_SEC": 1_000, "NET_PACKET_RATE_KILOPACKET_PER_SEC": 5}
    assert demand.same_subtree == {group.suffix for group in demand.groups}
    assert all("CUSTOM_VNIC_TYPE_NORMAL" in group.required for group in demand.groups)
    assert any("CUSTOM_PHYSNET_PUBLIC" in group.required for group in demand.groups)
    owner = PortOwner(instance_uuid=str(uuid4()), project_id=world.project, zone="nova")
    given = {port["id"]: {"allocation": {group.suffix: str(uuid4()) for group in demand.groups}}}
    (vif,) = ports.create_ports(client, owner, asks(item), "node1", repeated=False, profiles=given)
    assert vif.profile == given[port["id"]]
    assert {name: n for each in vif.resources.values() for name, n in each.items()} == asked
    created = RequestedNetwork(network_id=world.network("10.2.0.0/24", qos_policy_id=policy_id))
    with pytest.raises(InvalidRequest, match="Using networks with QoS policy is not supported"):
        ports.create_ports(client, owner, asks(created), "node1", repeated=False)
