# SPDX-License-Identifier: Apache-2.0
from dataclasses import replace

import pytest

from kilonova.model.host_devices import DeviceShare, HostDevices
from kilonova.model.numa import CellShare, HostCell, Pages, Ratios
from kilonova.model.pci import PciPool

CELL = HostCell(
    0,
    cpuset=frozenset({0, 1}),
    pcpuset=frozenset({2, 3, 4}),
    memory_mib=1024,
    pages=(Pages(4, 1000), Pages(2048, 8, reserved=1)),
    used_cpus=1,
    used_memory_mib=512,
    pinned=frozenset({2}),
)
HOST = HostDevices((CELL,), (PciPool(0, "10de", "1db4", 2, used=1, addresses=("0:0", "0:1")),))


@pytest.mark.parametrize(
    ("part", "expected"),
    [
        (CellShare(0, 512, pinned=frozenset({3, 4}), shares_cpus=False), True),
        (CellShare(0, 512, pinned=frozenset({2, 3}), shares_cpus=False), False),
        (CellShare(1, 1), False),
        (CellShare(0, 513, firm_memory=True, shares_cpus=False), False),
        (CellShare(0, 512, firm_memory=True, shares_cpus=False), True),
        (CellShare(0, 0, pages=7, page_size_kib=2048, firm_pages=True, shares_cpus=False), True),
        (CellShare(0, 0, pages=8, page_size_kib=2048, firm_pages=True, shares_cpus=False), False),
        (CellShare(0, 0, pages=1, page_size_kib=1048576, firm_pages=True, shares_cpus=False), False),
        (CellShare(0, 512, cpus=1), True),
        (CellShare(0, 512, cpus=2), False),
        (CellShare(0, 513, cpus=1), False),
    ],
)
def test_a_cell_gives_only_free_cpus_memory_and_pages(part: CellShare, expected: bool) -> None:
    assert HOST.can_give(DeviceShare((part,))) is expected


def test_shared_cpus_and_memory_are_bounded_by_the_ratios_of_the_share() -> None:
    share = DeviceShare((CellShare(0, 1536, cpus=3),), ratios=Ratios(2.0, 2.0))
    assert HOST.can_give(share)
    assert not HOST.can_give(replace(share, ratios=Ratios(2.0, 1.9)))
    assert not HOST.can_give(replace(share, ratios=Ratios(1.9, 2.0)))


def test_devices_must_be_free_in_a_pool_that_the_host_has() -> None:
    assert HOST.can_give(DeviceShare(devices=((0, 1),)))
    assert not HOST.can_give(DeviceShare(devices=((0, 2),)))
    assert not HOST.can_give(DeviceShare(devices=((7, 1),)))


def test_a_share_that_is_taken_and_given_back_leaves_the_host_as_it_was() -> None:
    part = CellShare(0, 256, cpus=1, pinned=frozenset({3}), pages=4, page_size_kib=2048)
    share = DeviceShare((part, CellShare(9, 1)), ((0, 1), (9, 1)))
    busy = HOST.taking(share)
    assert busy.cells[0].pinned == {2, 3}
    assert (busy.cells[0].used_cpus, busy.cells[0].used_memory_mib) == (2, 768)
    assert [pages.used for pages in busy.cells[0].pages] == [0, 4]
    assert busy.pools[0].free == 0
    assert busy.without(share) == HOST
    assert HOST.used_by([share]).without(share) == HOST.used_by([])


def test_the_first_free_addresses_of_each_pool_are_chosen_once() -> None:
    share = HOST.with_addresses(DeviceShare(devices=((0, 1), (7, 1))), {"0:0"})
    assert share.addresses == ((0, ("0:1",)),)
    assert HOST.with_addresses(share, {"0:0", "0:1"}) == share, "chosen addresses stay"
    assert HOST.with_addresses(DeviceShare(devices=((0, 1),)), {"0:0", "0:1"}).addresses == ()
