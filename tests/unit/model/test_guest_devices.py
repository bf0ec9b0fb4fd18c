# SPDX-License-Identifier: Apache-2.0
from kilonova.model.guest_devices import GuestDevice, GuestDevices
from kilonova.model.host_devices import DeviceShare, HostDevices
from kilonova.model.numa import CellShare
from kilonova.model.pci import PciPool

HOST = HostDevices((), (PciPool(3, "10de", "1db4", 2, 1, tags=(("a", "b"),), addresses=("0:1", "0:2")),))


def test_a_guest_gets_the_cells_of_its_share_and_the_devices_with_their_facts() -> None:
    part = CellShare(1, 512, pinned=frozenset({4}), pinning=((0, 4),), vcpus=frozenset({0}), page_size_kib=2048)
    guest = GuestDevices.of(DeviceShare((part,), ((3, 1),), addresses=((3, ("0:2",)),)), HOST)
    (cell,) = guest.cells
    assert (cell.host_cell, cell.vcpus, cell.memory_mib) == (1, {0}, 512)
    assert (cell.pinning, cell.page_size_kib) == (((0, 4),), 2048)
    assert guest.devices == (GuestDevice("0:2", "10de", "1db4", "type-PCI", 1, (("a", "b"),)),)


def test_devices_of_a_pool_that_the_host_has_lost_are_left_out() -> None:
    share = DeviceShare(devices=((9, 1), (3, 1)), addresses=((3, ("0:1",)), (9, ("0:9",))))
    assert [device.address for device in GuestDevices.of(share, HOST).devices] == ["0:1"]
