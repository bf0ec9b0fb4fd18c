# SPDX-License-Identifier: Apache-2.0
"""Which server sent a packet, on every database: the answer decides whose keys and user data a guest can read."""

from kilonova.db import guest_addresses, instance_networks, instances
from kilonova.db.database import Database
from kilonova.model.network_info import FixedAddress, NetworkInfo, Vif, VifNetwork, VifSubnet
from support.stored_servers import store_server

MAC, OTHER_MAC = "fa:16:3e:00:00:01", "fa:16:3e:00:00:02"
LINK_LOCAL = "fe80::f816:3eff:fe00:1"


def vif(network: str = "net", mac: str = MAC, address: str = "10.0.0.5") -> Vif:
    fixed = (FixedAddress(address, ("172.24.4.9",)),)
    subnets = (
        VifSubnet(id="v4", cidr="10.0.0.0/24", version=4, addresses=fixed),
        VifSubnet(id="v6", cidr="fd00::/64", version=6, addresses=(FixedAddress("fd00::5"),)),
    )
    return Vif(port_id=f"port-{network}-{mac}", mac=mac, network=VifNetwork(id=network, label="n"), subnets=subnets)


def stored(database: Database, info: NetworkInfo, host: str | None = "node1") -> str:
    uuid = store_server(database, host=host).uuid
    database.write(lambda tx: instance_networks.store_info(tx, uuid, info))
    return uuid


def found(database: Database, address: str, mac: str = "", network: str = "net", host: str = "node1") -> str | None:
    with database.read() as connection:
        return guest_addresses.find_server(connection, host, network, address, mac)


def test_a_server_is_found_by_each_of_its_fixed_addresses(database: Database) -> None:
    server = stored(database, (vif(),))
    assert found(database, "10.0.0.5") == server
    assert found(database, "10.0.0.5", MAC) == server
    assert found(database, "FD00:0::5", MAC) == server
    assert found(database, "10.0.0.6") is None
    assert found(database, "172.24.4.9") is None  # of a router, not of a guest
    for text in ("", "x", "10.0.0.5/24", "10.0.0.5%eth0", "' OR 1=1"):
        assert found(database, text) is None


def test_a_server_of_another_host_is_not_found(database: Database) -> None:
    server = stored(database, (vif(),))
    assert found(database, "10.0.0.5", host="node2") is None
    assert found(database, LINK_LOCAL, MAC, host="node2") is None
    unscheduled = stored(database, (vif(address="10.0.0.9"),), host=None)
    assert found(database, "10.0.0.9") is None
    database.write(lambda tx: instances.change(tx, server, host="node2"))
    assert found(database, "10.0.0.5") is None
    assert found(database, "10.0.0.5", host="node2") == server
    assert unscheduled != server


def test_networks_may_share_addresses(database: Database) -> None:
    first, second = stored(database, (vif("net"),)), stored(database, (vif("other", OTHER_MAC),))
    assert found(database, "10.0.0.5", network="net") == first
    assert found(database, "10.0.0.5", network="other") == second
    assert found(database, "10.0.0.5", OTHER_MAC, network="net") is None
    assert found(database, "10.0.0.5", network="none") is None


def test_the_address_and_the_mac_must_be_those_of_one_interface(database: Database) -> None:
    stored(database, (vif("net"), vif("net", OTHER_MAC, "10.0.0.6")))
    assert found(database, "10.0.0.5", OTHER_MAC) is None
    assert found(database, "10.0.0.6", OTHER_MAC) is not None


def test_an_address_that_fits_two_servers_fits_none(database: Database) -> None:
    for _ in range(2):
        stored(database, (vif(),))
    assert found(database, "10.0.0.5") is None
    assert found(database, LINK_LOCAL, MAC) is None


def test_a_link_local_address_needs_the_mac_of_the_interface(database: Database) -> None:
    server = stored(database, (vif(),))
    other = stored(database, (vif("net", OTHER_MAC, "10.0.0.6"),))
    assert found(database, LINK_LOCAL, MAC) == server
    assert found(database, "fe80::1234", MAC) == server  # a stable address of RFC 7217 contains no MAC
    assert found(database, LINK_LOCAL) is None
    assert found(database, LINK_LOCAL, OTHER_MAC) is None  # the other guest pretends to be the first
    assert found(database, "fe80::1234", OTHER_MAC) == other
    assert found(database, LINK_LOCAL, MAC, network="other") is None
    assert found(database, "169.254.0.5", MAC) is None
