# SPDX-License-Identifier: Apache-2.0
import pytest

from kilonova.model.flavor import Flavor
from kilonova.model.quota import NO_LIMITS, Usage, room_for, shortage

EACH = Usage(1, 2, 512)
LIMITS = {**NO_LIMITS, "instances": 10, "cores": 8, "ram": 4096}


@pytest.mark.parametrize(
    ("used", "wanted", "room"),
    [
        (Usage(), 3, 3),
        (Usage(), 9, 4),
        (Usage(9, 0, 0), 3, 1),
        (Usage(0, 0, 3600), 3, 0),
        (Usage(12, 0, 0), 3, 0),
    ],
)
def test_the_tightest_limit_sets_the_room(used: Usage, wanted: int, room: int) -> None:
    assert room_for(EACH, used, LIMITS, wanted) == room


def test_neither_an_unlimited_resource_nor_an_unused_one_limits() -> None:
    assert room_for(EACH, Usage(99, 99, 99_999), NO_LIMITS, 5) == 5
    assert room_for(Usage(1, 0, 512), Usage(0, 99, 0), LIMITS, 5) == 5


def test_a_shortage_names_each_short_resource_with_its_figures() -> None:
    message = shortage(EACH, 3, Usage(2, 6, 3000), {**LIMITS, "instances": -1})
    assert message == "Quota exceeded for cores, ram: Requested 6, 1536, but already used 6, 3000 of 8, 4096 cores, ram"


def test_usages_are_added_multiplied_and_compared_by_resource() -> None:
    assert Usage.of(Flavor("1", "f", vcpus=2, memory_mib=512, root_gib=9)) == EACH
    assert EACH + EACH == EACH * 2 == Usage(2, 4, 1024)
    assert Usage(1, 4, 256).beyond(EACH) == Usage(0, 2, 0)
