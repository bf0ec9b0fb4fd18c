# SPDX-License-Identifier: Apache-2.0
import numpy as np
from tests.unit.scheduler.weighers.rated import CLOUD, rated

from kilonova.scheduler.weighers import IoOpsWeigher


def test_the_rating_is_the_number_of_running_operations() -> None:
    assert rated(IoOpsWeigher()) == [2, 0]
    assert rated(IoOpsWeigher(), CLOUD, rows=np.array([1])) == [0]
