# SPDX-License-Identifier: Apache-2.0
import numpy as np
from tests.unit.scheduler.weighers.rated import CLOUD, rated

from kilonova.scheduler.weighers import DiskWeigher


def test_the_rating_is_the_free_disk() -> None:
    assert rated(DiskWeigher()) == [190, 200]
    assert rated(DiskWeigher(), CLOUD, rows=np.array([1])) == [200]
