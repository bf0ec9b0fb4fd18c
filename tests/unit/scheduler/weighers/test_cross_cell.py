# SPDX-License-Identifier: Apache-2.0
import numpy as np
from tests.unit.scheduler.small_cloud import host, request, table
from tests.unit.scheduler.weighers.rated import rated

from kilonova.scheduler.weighers import CrossCellWeigher

HOSTS = table(host("a", cell_uuid="c1"), host("b", cell_uuid="c2"), host("c"))


def test_a_move_that_may_leave_the_cell_prefers_to_stay() -> None:
    assert rated(CrossCellWeigher(), HOSTS, request(source_cell="c1")) == [1.0, -1.0, -1.0]
    assert rated(CrossCellWeigher(), HOSTS, request(source_cell="c2"), np.array([1])) == [1.0]


def test_requests_without_a_source_cell_and_hosts_of_one_cell_are_not_rated() -> None:
    assert rated(CrossCellWeigher(), HOSTS) is None
    assert rated(CrossCellWeigher(), table(host("a"), host("b")), request(source_cell="c1")) is None
