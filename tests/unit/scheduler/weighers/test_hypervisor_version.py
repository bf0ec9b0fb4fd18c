# SPDX-License-Identifier: Apache-2.0
import numpy as np
from tests.unit.scheduler.small_cloud import host, table
from tests.unit.scheduler.weighers.rated import CLOUD, rated

from kilonova.scheduler.weighers import HypervisorVersionWeigher


def test_the_rating_is_the_version_of_the_hypervisor() -> None:
    assert rated(HypervisorVersionWeigher()) == [6, 7]
    assert rated(HypervisorVersionWeigher(), CLOUD, rows=np.array([1])) == [7]


def test_hosts_of_one_version_are_not_rated() -> None:
    assert rated(HypervisorVersionWeigher(), table(host("a"), host("b"))) is None
