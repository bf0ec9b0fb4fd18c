# SPDX-License-Identifier: Apache-2.0
from tests.unit.scheduler.filters.capacity import LARGEST, LOW, one_more, passes
from tests.unit.scheduler.small_cloud import host, request, table

from kilonova.scheduler.filters import CoreFilter


def test_all_cores_under_the_ratio_of_the_inventory_may_be_used() -> None:
    assert passes(CoreFilter(), **LARGEST)
    assert not passes(CoreFilter(), **one_more(LARGEST, "vcpus"))


def test_the_ratio_of_an_aggregate_is_ignored() -> None:
    assert passes(CoreFilter(), LOW, vcpus=5)


def test_a_host_that_reports_no_cores_passes() -> None:
    assert CoreFilter().passes(table(host(inventories=())), request()).tolist() == [True]
