# SPDX-License-Identifier: Apache-2.0
import numpy as np
from tests.unit.scheduler.small_cloud import host, table
from tests.unit.scheduler.weighers.rated import CLOUD, rated

from kilonova.scheduler.weighers import RAMWeigher


def test_the_rating_is_the_free_memory_also_below_zero() -> None:
    assert rated(RAMWeigher()) == [6656, -512]
    assert rated(RAMWeigher(), CLOUD, rows=np.array([1])) == [-512]


def test_a_host_that_reports_no_memory_is_rated_0() -> None:
    assert rated(RAMWeigher(), table(host(inventories=()))) == [0]
