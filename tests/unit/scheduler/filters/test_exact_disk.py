# SPDX-License-Identifier: Apache-2.0
import pytest
from tests.unit.scheduler.filters.capacity import passes

from kilonova.scheduler.filters import ExactDiskFilter

EXACT = {"root_gib": 30, "ephemeral_gib": 19, "swap_mib": 1024}


def test_the_disks_of_the_flavor_together_may_use_up_the_disk() -> None:
    assert passes(ExactDiskFilter(), **EXACT)


@pytest.mark.parametrize("difference", [-1, 1])
@pytest.mark.parametrize("disk", EXACT)
def test_no_disk_may_be_left_over(disk: str, difference: int) -> None:
    assert not passes(ExactDiskFilter(), **{**EXACT, disk: EXACT[disk] + difference})
