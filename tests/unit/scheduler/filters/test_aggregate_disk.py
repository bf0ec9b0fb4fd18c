# SPDX-License-Identifier: Apache-2.0
from tests.unit.scheduler.filters.capacity import HIGH, LARGEST, LOW, UNREADABLE, one_more, passes

from kilonova.scheduler.filters import AggregateDiskFilter

RULE = AggregateDiskFilter()


def test_without_a_ratio_of_an_aggregate_that_of_the_inventory_applies() -> None:
    for metadata in ((), ({},)):
        assert passes(RULE, *metadata, **LARGEST)
        assert not passes(RULE, *metadata, **one_more(LARGEST, "swap_mib"))


def test_the_smallest_ratio_of_the_aggregates_applies() -> None:
    assert passes(RULE, LOW, HIGH, root_gib=0, ephemeral_gib=25)
    assert not passes(RULE, LOW, HIGH, root_gib=0, ephemeral_gib=26)


def test_an_unreadable_ratio_makes_the_host_fall_back_to_its_inventory() -> None:
    assert passes(RULE, LOW, UNREADABLE, root_gib=0, ephemeral_gib=26)
