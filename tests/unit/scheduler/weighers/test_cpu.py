# SPDX-License-Identifier: Apache-2.0
import numpy as np
from tests.unit.scheduler.small_cloud import host, table
from tests.unit.scheduler.weighers.rated import CLOUD, rated

from kilonova.scheduler.weighers import CPUWeigher


def test_the_rating_is_the_number_of_free_cores_under_the_allocation_ratio() -> None:
    assert rated(CPUWeigher()) == [28, 32]
    assert rated(CPUWeigher(), CLOUD, rows=np.array([1])) == [32]


def test_hosts_without_cores_are_not_rated() -> None:
    assert rated(CPUWeigher(), table(host(inventories=()))) is None
