# SPDX-License-Identifier: Apache-2.0
from kilonova.scheduler.settings import weight_setting


def test_pairs_are_read_and_what_is_none_is_told() -> None:
    pairs, bad = weight_setting(("cpu=1.0", "power=-2", "cpu=3", "=1", "x", "y=", "z=many", "w=nan", "v=inf", "a=b=1"))
    assert pairs == (("cpu", 1.0), ("power", -2.0), ("cpu", 3.0))
    assert bad == ("=1", "x", "y=", "z=many", "w=nan", "v=inf", "a=b=1")
