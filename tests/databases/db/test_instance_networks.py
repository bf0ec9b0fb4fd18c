# SPDX-License-Identifier: Apache-2.0
"""Network requests and cached interfaces of servers, on every database."""

from datetime import timedelta

import sqlalchemy as sa

from kilonova.db import instance_networks
from kilonova.db.core import tables as t
from kilonova.db.database import Database
from kilonova.model.network_info import FixedAddress, Vif, VifNetwork, VifSubnet
from kilonova.model.network_request import NO_NETWORKS, NetworkMode, NetworkRequest, RequestedNetwork
from support.stored_servers import store_server

NETWORK = VifNetwork(id="net", label="private", mtu=1442)
SUBNET = VifSubnet(id="sub", cidr="10.0.0.0/24", version=4, addresses=(FixedAddress("10.0.0.5", ("172.24.4.9",)),))
VIF = Vif(port_id="port-1", mac="fa:16:3e:00:00:01", network=NETWORK, subnets=(SUBNET,), details={"port_filter": True})
REQUEST = NetworkRequest(
    mode=NetworkMode.LISTED, networks=(RequestedNetwork(network_id="net", tag="nic"),), security_groups=("group",)
)


def test_a_request_and_interfaces_are_read_as_they_were_stored(database: Database) -> None:
    server = store_server(database).uuid
    database.write(lambda tx: instance_networks.insert(tx, {server: REQUEST}))
    database.write(lambda tx: instance_networks.store_info(tx, server, (VIF,)))
    with database.read() as connection:
        assert instance_networks.request_of(connection, server) == REQUEST
        assert instance_networks.info_of(connection, server) == (VIF,)
        assert instance_networks.infos_of(connection, [server, "other"]) == {server: (VIF,)}
        assert instance_networks.oldest(connection, database.clock.now() + timedelta(hours=1), 9) == (server,)


def test_a_server_without_networks_has_none_and_can_get_an_interface(database: Database) -> None:
    server = store_server(database).uuid
    with database.read() as connection:
        assert instance_networks.request_of(connection, server) == NO_NETWORKS
        assert instance_networks.info_of(connection, server) == ()
    database.write(lambda tx: instance_networks.store_info(tx, server, (VIF,)))
    database.write(lambda tx: instance_networks.store_info(tx, server, (VIF, VIF)))
    with database.read() as connection:
        assert instance_networks.info_of(connection, server) == (VIF, VIF)
    database.write(lambda tx: instance_networks.forget(tx, [server]))
    with database.read() as connection:
        assert instance_networks.infos_of(connection, [server]) == {}


def test_interfaces_of_several_servers_are_replaced_at_once(database: Database) -> None:
    servers = [store_server(database).uuid for _ in range(3)]
    database.write(lambda tx: instance_networks.insert(tx, {servers[0]: REQUEST}))
    database.write(lambda tx: instance_networks.store_infos(tx, dict.fromkeys(servers, (VIF,))))
    database.write(lambda tx: instance_networks.store_infos(tx, dict.fromkeys(servers[1:], ())))
    with database.read() as connection:
        assert instance_networks.infos_of(connection, servers) == {servers[0]: (VIF,)}
        addresses = connection.execute(sa.select(t.instance_addresses.c.instance_uuid, t.instance_addresses.c.address))
        assert sorted(map(tuple, addresses)) == [(servers[0], "10.0.0.5"), (servers[0], "172.24.4.9")]
