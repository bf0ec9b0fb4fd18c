# SPDX-License-Identifier: Apache-2.0
from kilonova.db.change_log.device_json import as_logged, devices_from_logged, share_as_json, share_from_json
from kilonova.model.host_devices import DeviceShare, HostDevices
from kilonova.model.numa import CellShare, HostCell, Pages, Ratios
from kilonova.model.pci import PciPool

CELL = HostCell(
    1,
    cpuset=frozenset({0, 1}),
    pcpuset=frozenset({2, 3}),
    memory_mib=1024,
    siblings=(frozenset({2, 3}),),
    pages=(Pages(4, 1000, 10, 5),),
    socket=0,
    used_cpus=1,
    used_memory_mib=512,
    pinned=frozenset({3}),
)
POOL = PciPool(0, "10de", "1db4", 2, 1, tags=(("physical_network", "ü"),), used=1)


def test_logged_devices_are_read_back_without_addresses() -> None:
    devices = HostDevices((CELL,), (POOL,))
    assert devices_from_logged(as_logged(devices)) == devices
    addressed = HostDevices((CELL,), (PciPool(0, "10de", "1db4", 2, 1, tags=POOL.tags, used=1, addresses=("0", "1")),))
    assert as_logged(addressed) == as_logged(devices)


def test_a_share_is_read_back() -> None:
    part = CellShare(
        1, 512, 2, frozenset({2, 3}), ((0, 2),), frozenset({3}), 2048, 256, firm_pages=True, vcpus=frozenset({0, 1})
    )
    share = DeviceShare((part,), ((0, 1),), Ratios(4.0, 1.5), ((0, ("0000:00:00.0",)),))
    assert share_from_json(share_as_json(share)) == share


def test_a_share_of_an_earlier_release_has_neither_vcpus_nor_addresses() -> None:
    stored = share_as_json(DeviceShare((CellShare(1, 512),), ((0, 1),)))
    del stored["addresses"]
    del stored["cells"][0]["vcpus"]
    assert share_from_json(stored) == DeviceShare((CellShare(1, 512),), ((0, 1),))
