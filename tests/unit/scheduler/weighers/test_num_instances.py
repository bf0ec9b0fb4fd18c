# SPDX-License-Identifier: Apache-2.0
import numpy as np
from tests.unit.scheduler.weighers.rated import CLOUD, rated

from kilonova.scheduler.settings import SchedulerConfig
from kilonova.scheduler.weighers import NumInstancesWeigher


def test_the_rating_is_the_number_of_servers() -> None:
    assert rated(NumInstancesWeigher()) == [1, 0]
    assert rated(NumInstancesWeigher(), CLOUD, rows=np.array([1])) == [0]


def test_the_weigher_is_off_until_its_multiplier_is_set() -> None:
    assert NumInstancesWeigher.configured(SchedulerConfig()).multiplier == 0.0
    assert NumInstancesWeigher.configured(SchedulerConfig(num_instances_weight_multiplier=-1.0)).multiplier == -1.0
