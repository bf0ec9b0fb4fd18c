# SPDX-License-Identifier: Apache-2.0
from tests.unit.scheduler.filters.capacity import LARGEST, LOW, one_more, passes
from tests.unit.scheduler.small_cloud import host, request, table

from kilonova.scheduler.filters import DiskFilter


def test_the_disks_of_the_flavor_are_added_up() -> None:
    assert passes(DiskFilter(), **LARGEST)
    assert not passes(DiskFilter(), **one_more(LARGEST, "swap_mib"))
    assert not passes(DiskFilter(), **LARGEST, ephemeral_gib=1)


def test_the_ratio_of_an_aggregate_is_ignored() -> None:
    assert passes(DiskFilter(), LOW, root_gib=0, ephemeral_gib=26)


def test_a_host_that_reports_no_disk_fails() -> None:
    assert DiskFilter().passes(table(host(inventories=())), request()).tolist() == [False]
