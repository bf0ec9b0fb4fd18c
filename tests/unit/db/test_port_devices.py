# SPDX-License-Identifier: Apache-2.0
"""Devices of attached ports in the share of a server, and in the usage of its host."""

import pytest

from kilonova.db import host_devices, port_devices
from kilonova.db.database import Database
from kilonova.db.host_devices import Taking
from kilonova.errors import ConcurrentUpdate
from kilonova.model.host_devices import DeviceShare, HostDevices
from kilonova.model.pci import PciPool

NODE = "node"


@pytest.fixture
def host(sqlite: Database) -> Database:
    addresses = tuple(f"0000:00:00.{number}" for number in range(3))
    pools = (PciPool(0, "8086", "154c", 3, addresses=addresses), PciPool(1, "10de", "1db4", 1))
    sqlite.write(lambda tx: host_devices.report_all(tx, {NODE: HostDevices(pools=pools)}))
    return sqlite


def add(database: Database, server: str, port: str, pool: int = 0) -> None:
    database.write(lambda tx: port_devices.add(tx, server, NODE, port, pool))


def used(database: Database) -> list[int]:
    with database.read() as connection:
        return [pool.used for pool in host_devices.get(connection, NODE).pools]


def ports(database: Database, server: str) -> dict[str, str]:
    with database.read() as connection:
        return {port: device.address for port, device in host_devices.of_ports(connection, server).items()}


def test_a_port_keeps_its_device_when_others_come_and_go(host: Database) -> None:
    share = DeviceShare(devices=((0, 1),))
    assert host.write(lambda tx: host_devices.take(tx, [Taking("one", NODE, share)]))
    add(host, "one", "p1")
    add(host, "one", "p1")
    add(host, "one", "p2")
    assert ports(host, "one") == {"p1": "0000:00:00.1", "p2": "0000:00:00.2"}
    assert used(host) == [3, 0]
    with pytest.raises(ConcurrentUpdate):
        add(host, "two", "p3")
    host.write(lambda tx: port_devices.drop(tx, "one", "p1"))
    host.write(lambda tx: port_devices.drop(tx, "one", "p1"))
    assert ports(host, "one") == {"p2": "0000:00:00.2"}
    with host.read() as connection:
        (device,) = host_devices.of_guest(connection, "one").devices
    assert device.address == "0000:00:00.0"
    add(host, "two", "p3")
    assert ports(host, "two") == {"p3": "0000:00:00.1"}
    host.write(lambda tx: host_devices.give_back(tx, "one"))
    host.write(lambda tx: port_devices.drop(tx, "two", "p3"))
    assert used(host) == [0, 0]
    with host.read() as connection:
        assert host_devices.shares(connection) == ()


def test_a_host_that_reports_no_addresses(host: Database) -> None:
    add(host, "one", "p1", pool=1)
    assert (ports(host, "one"), used(host)) == ({}, [0, 1])
    with pytest.raises(ConcurrentUpdate):
        add(host, "two", "p2", pool=1)
    with pytest.raises(ConcurrentUpdate):
        add(host, "two", "p2", pool=7)
    host.write(lambda tx: port_devices.drop(tx, "one", "p1"))
    assert used(host) == [0, 0]
