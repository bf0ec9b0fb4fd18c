# SPDX-License-Identifier: Apache-2.0
from dataclasses import replace

import pytest
from tests.unit.scheduler.small_cloud import flavor

from kilonova.scheduler.explanations.request_changes import with_amount
from kilonova.scheduler.resources import resource_query


@pytest.mark.parametrize(
    ("root", "ephemeral", "swap", "expected"),
    [(30, 3, 1024, (16, 3, 1024)), (2, 30, 1024, (0, 19, 1024)), (0, 0, 30 * 1024, (0, 0, 20 * 1024))],
)
def test_disk_is_taken_from_root_then_ephemeral_then_swap(
    root: int, ephemeral: int, swap: int, expected: tuple[int, int, int]
) -> None:
    found = with_amount(flavor(root_gib=root, ephemeral_gib=ephemeral, swap_mib=swap), "DISK_GB", 20)
    assert (found.root_gib, found.ephemeral_gib, found.swap_mib) == expected
    assert resource_query(found).resources["DISK_GB"] == 20


def test_an_amount_in_extra_specs_is_changed_there() -> None:
    given = flavor({"resources:CUSTOM_GPU": "2", "resources1:CUSTOM_GPU": "2"})
    assert resource_query(with_amount(given, "CUSTOM_GPU", 3)).resources["CUSTOM_GPU"] == 3
    assert "CUSTOM_GPU" not in resource_query(with_amount(given, "CUSTOM_GPU", 0)).resources
    assert replace(with_amount(given, "CUSTOM_GPU", 3), extra_specs={}) == flavor()
