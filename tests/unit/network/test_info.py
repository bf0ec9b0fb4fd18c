# SPDX-License-Identifier: Apache-2.0
from kilonova.model.network_info import FixedAddress, Route, Vif, VifNetwork, VifSubnet
from kilonova.network.client import Resource
from kilonova.network.info import AttachedPort, by_id, describe
from support.fake_neutron import FakeNeutron


def described(fake: FakeNeutron, *port_ids: str, floating: bool = True) -> tuple[Vif, ...]:
    attached = [AttachedPort(fake.port(each), created=True) for each in port_ids]
    return describe(fake, attached, floating=floating)


def test_a_port_is_described_with_its_network_and_subnets() -> None:
    fake = FakeNeutron()
    network = fake.make_dual_stack(**{"provider:physical_network": "physnet1"})
    v4, v6 = fake.store["networks"][network]["subnets"]
    routes = [{"destination": "192.168.0.0/16", "nexthop": "10.1.0.9"}]
    fake.update("subnets", v4, {"dns_nameservers": ["10.1.0.5"], "host_routes": routes})
    port = fake.make_port(
        network,
        mac_address="fa:16:3e:aa:bb:cc",
        **{"binding:host_id": "host1", "binding:profile": {"trusted": "true"}},
    )
    (vif,) = described(fake, port)
    assert vif == Vif(
        port_id=port,
        mac="fa:16:3e:aa:bb:cc",
        network=VifNetwork(
            id=network, label="private", mtu=1442, project_id="demo", physical_network="physnet1", bridge="br-int"
        ),
        subnets=(
            VifSubnet(
                id=v4,
                cidr="10.1.0.0/24",
                version=4,
                gateway="10.1.0.1",
                dns=("10.1.0.5",),
                routes=(Route("192.168.0.0/16", "10.1.0.9"),),
                addresses=(FixedAddress("10.1.0.2"),),
            ),
            VifSubnet(
                id=v6,
                cidr="fd00:1::/64",
                version=6,
                gateway="fd00:1::1",
                ipv6_address_mode="slaac",
                addresses=(FixedAddress("fd00:1::f816:3eff:feaa:bbcc"),),
            ),
        ),
        vif_type="ovs",
        details=fake.port(port)["binding:vif_details"],
        profile={"trusted": "true"},
        security_groups=("default",),
        active=True,
        created=True,
    )


def test_all_ports_are_described_by_four_requests() -> None:
    fake = FakeNeutron()
    ids = [fake.make_port(fake.make_network(str(n), v4=f"10.{n}.0.0/24")) for n in range(1, 4)]
    external = fake.make_external()
    for port in ids:
        fake.create("floatingips", {"floating_network_id": external, "port_id": port, "project_id": "demo"})
    fake.faults.calls.clear()
    info = described(fake, *ids)
    assert [address.floating for vif in info for _, address in vif.addresses] == [
        ("172.24.4.2",), ("172.24.4.3",), ("172.24.4.4",)
    ]  # fmt: skip
    assert fake.faults.counts() == {
        "GET networks": 1, "GET subnets": 1, "GET security-groups": 1, "GET floatingips": 1
    }  # fmt: skip
    assert fake.faults.count() == 4
    described(fake, ids[0], floating=False)
    assert fake.faults.count("GET floatingips") == 1


def test_a_port_without_addresses_and_no_ports_at_all() -> None:
    fake = FakeNeutron()
    port = fake.make_port(fake.make_network(v4=None), fixed_ips=[], admin_state_up=False, trunk_details={})
    (vif,) = described(fake, port)
    assert (vif.subnets, vif.active, vif.vif_type, vif.trunk_parent) == ((), True, "unbound", True)
    fake.faults.calls.clear()
    assert describe(fake, []) == ()
    assert by_id(fake, "ports", ()) == {}
    assert fake.faults.calls == []


def test_what_was_deleted_between_two_requests_leaves_the_rest_of_the_description() -> None:
    fake = FakeNeutron()
    port: Resource = fake.port(fake.make_port(fake.make_network()))
    fake.store["networks"].clear()
    fake.store["subnets"].clear()
    (vif,) = describe(fake, [AttachedPort(port, created=False)])
    assert vif.network.label == ""
    assert [(subnet.cidr, address.address) for subnet, address in vif.addresses] == [("10.1.0.2/32", "10.1.0.2")]
