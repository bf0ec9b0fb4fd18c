# SPDX-License-Identifier: Apache-2.0
"""Rows of NUMA cells and PCI pools: reports, claims, and releases."""

from collections.abc import Callable
from dataclasses import replace

import pytest
import sqlalchemy as sa

from kilonova.db import host_devices
from kilonova.db.change_log import device_json
from kilonova.db.core import tables as t
from kilonova.db.core.transaction import Transaction
from kilonova.db.database import Database
from kilonova.db.host_devices import Taking
from kilonova.errors import ClaimLost
from kilonova.messaging.messages import SpawnGuest
from kilonova.model.flavor import Flavor
from kilonova.model.guest_devices import GuestDevices
from kilonova.model.host_devices import DeviceShare, HostDevices
from kilonova.model.numa import HostCell, Pages
from kilonova.model.pci import PciPool
from support.cell import SMALL, Cell
from support.device_cells import GPU, PINNED, SHARE, devices_of, machine
from support.orders import order


def cell_of(number: int, **changed: object) -> HostCell:
    facts = {"cpuset": frozenset({0, 1}), "pcpuset": frozenset({2, 3, 4}), "memory_mib": 1024, **changed}
    return HostCell(number, **facts)  # type: ignore[arg-type]


HARDWARE = HostDevices(
    (cell_of(0, siblings=(frozenset({2, 3}),), pages=(Pages(4, 1000, 10), Pages(2048, 8)), socket=1),),
    (PciPool(0, "10de", "1db4", 2, 0, tags=(("physical_network", "ü"),)), PciPool(1, "8086", "154d", 4)),
)


def reported(database: Database, devices: HostDevices) -> HostDevices:
    database.write(lambda tx: host_devices.report_all(tx, {"node": devices}))
    with database.read() as connection:
        return host_devices.get(connection, "node")


def versions(database: Database) -> list[int]:
    with database.read() as connection:
        return list(connection.execute(sa.select(t.numa_cells.c.version).order_by(t.numa_cells.c.cell)).scalars())


def take(database: Database, *takings: Taking) -> bool:
    """Take all devices, or none."""

    def job(tx: Transaction) -> None:
        if not host_devices.take(tx, takings):
            raise ClaimLost("short")

    try:
        database.write(job)
    except ClaimLost:
        return False
    return True


def test_the_stored_devices_equal_the_report(database: Database) -> None:
    assert reported(database, HARDWARE) == HARDWARE
    assert versions(database) == [1]
    assert reported(database, replace(HARDWARE, pools=HARDWARE.pools[::-1])) == HARDWARE
    with database.read() as connection:
        assert host_devices.list_logged(connection) == {"node": device_json.as_logged(HARDWARE)}
    assert versions(database) == [1], "an equal report must write nothing"


def test_devices_are_taken_all_or_none_and_never_twice(database: Database) -> None:
    reported(database, HARDWARE)
    assert take(database, Taking("one", "node", SHARE))
    assert not take(database, Taking("two", "node", replace(SHARE, devices=()))), "these CPUs are taken"
    assert not take(database, Taking("two", "node", DeviceShare(devices=((0, 2),)))), "one is left"
    assert not take(database, Taking("two", "elsewhere", SHARE))
    together = [Taking(name, "node", DeviceShare(devices=((1, 2),))) for name in ("two", "three", "four")]
    assert not take(database, *together)
    assert take(database, *together[:2])
    with database.read() as connection:
        assert {taking.instance_uuid for taking in host_devices.shares(connection)} == {"one", "two", "three"}
        assert host_devices.get(connection, "node").cells[0].pinned == {2, 3}
    for name in ("one", "two", "three", "three", "never"):
        database.write(lambda tx, name=name: host_devices.give_back(tx, name))  # type: ignore[misc]
    assert reported(database, HARDWARE) == HARDWARE


def test_other_hardware_keeps_what_servers_have(database: Database) -> None:
    reported(database, HARDWARE)
    assert take(database, Taking("one", "node", SHARE))
    more = replace(HARDWARE, cells=(*HARDWARE.cells, cell_of(1, cpuset=frozenset({8}), pcpuset=frozenset({9}))))
    found = reported(database, more)
    assert [sorted(each.pinned) for each in found.cells] == [[2, 3], []]
    assert [(pool.total, pool.used) for pool in found.pools] == [(2, 1), (4, 0)]
    without = reported(database, replace(more, pools=more.pools[1:]))
    assert [(pool.number, pool.total, pool.used) for pool in without.pools] == [(0, 0, 1), (1, 4, 0)]
    assert not take(database, Taking("two", "node", DeviceShare(devices=((0, 1),))))
    database.write(lambda tx: host_devices.give_back(tx, "one"))
    with database.read() as connection:
        assert [pool.number for pool in host_devices.get(connection, "node").pools] == [1]
        assert not any(each.pinned for each in host_devices.get(connection, "node").cells)


def test_a_pool_that_comes_back_is_the_one_it_was(database: Database) -> None:
    reported(database, HARDWARE)
    assert take(database, Taking("one", "node", SHARE))
    reported(database, replace(HARDWARE, pools=()))
    found = reported(database, HARDWARE)
    assert [(pool.number, pool.total, pool.used) for pool in found.pools] == [(0, 2, 1), (1, 4, 0)]


def test_a_guest_is_told_which_cpus_and_devices_it_has(start_machines: Callable[..., Cell]) -> None:
    cell = start_machines(machine("a"))
    flavor = Flavor("x", "both", 2, 512, 1, extra_specs={**PINNED.extra_specs, **GPU.extra_specs})
    uuids = [*cell.boot(2, flavor=flavor), *cell.boot(flavor=SMALL)]
    cell.bus.run()
    told = {each.guest.uuid: each.guest.reserved for each in cell.bus.sent if isinstance(each, SpawnGuest)}
    assert told[uuids[2]] == GuestDevices()
    addresses = [device.address for uuid in uuids[:2] for device in told[uuid].devices]
    assert sorted(addresses) == ["0000:00:00.0", "0000:00:00.1"]
    for uuid in uuids[:2]:
        (guest_cell,) = told[uuid].cells
        assert guest_cell.vcpus == {0, 1}
        assert [vcpu for vcpu, _ in guest_cell.pinning] == [0, 1]
        (device,) = told[uuid].devices
        assert (device.vendor_id, device.product_id, device.numa_node) == ("10de", "1db4", 1)
    pinned = [cpu for uuid in uuids[:2] for _, cpu in told[uuid].cells[0].pinning]
    assert len(set(pinned)) == 4
    devices_of(cell)


def test_devices_that_are_given_back_go_to_the_next(start_machines: Callable[..., Cell]) -> None:
    cell = start_machines(machine("a"))
    first, second = (cell.claimer.place(order(cell, flavor=GPU)).workflows[0].instance_uuid for _ in range(2))

    def address(uuid: str) -> str:
        devices_of(cell)
        with cell.database.read() as connection:
            (device,) = host_devices.of_guest(connection, uuid).devices
        return device.address

    assert [address(first), address(second)] == ["0000:00:00.0", "0000:00:00.1"]
    cell.database.write(lambda tx: host_devices.give_back(tx, first))
    third = cell.claimer.place(order(cell, flavor=GPU)).workflows[0].instance_uuid
    assert address(third) == "0000:00:00.0"


@pytest.mark.parametrize("kind", ["sqlite"], indirect=True)
def test_servers_of_earlier_releases_get_addresses_from_a_report(
    start_machines: Callable[..., Cell],
) -> None:
    cell = start_machines(machine("a"))
    uuids = [cell.claimer.place(order(cell, flavor=GPU)).workflows[0].instance_uuid for _ in range(2)]

    def forget(tx: Transaction) -> None:
        for table, column in ((t.pci_pools, "facts"), (t.device_shares, "body")):
            for row in tx.execute(sa.select(table)).mappings().all():
                kept = {name: value for name, value in row[column].items() if name != "addresses"}
                key = [each == row[each.name] for each in table.primary_key]
                tx.execute(sa.update(table).where(*key).values({column: kept}))

    def addresses() -> list[str]:
        with cell.database.read() as connection:
            return sorted(each.address for uuid in uuids for each in host_devices.of_guest(connection, uuid).devices)

    cell.database.write(forget)
    assert addresses() == []
    cell.announce()
    assert addresses() == ["0000:00:00.0", "0000:00:00.1"]
    devices_of(cell)
