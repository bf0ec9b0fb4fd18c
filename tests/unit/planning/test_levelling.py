# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
from tests.unit.planning.test_drain import cloud_of, server

from kilonova.model.move_plan import How
from kilonova.planning.levelling import Levelling, Pools

SERVERS = (server("a", 0, 4), server("b", 0, 1), server("c", 1, 1), server("d", 2, 2))


def test_deviations_are_those_of_the_shares_of_hosts() -> None:
    cloud = cloud_of([8, 4, 12], *SERVERS)
    shares = np.array([5 / 8, 1 / 4, 2 / 12])
    pools = Pools(cloud, np.zeros(3, dtype=np.int64), ["VCPU", "NONE"])
    assert pools.deviations() == pytest.approx([shares.std()])
    share_of_pool = 8 / 24
    assert pools.dispersions() == pytest.approx([((shares - share_of_pool) ** 2).mean()])
    assert pools.imbalance() == pytest.approx(float(pools.dispersions()[0] / shares.std()))


@pytest.mark.parametrize("number", [[0, 0, 0], [0, 1, 0]])
def test_changes_by_a_move_are_foreseen(number: list[int]) -> None:
    cloud = cloud_of([8, 4, 12], *SERVERS)
    pools = Pools(cloud, np.array(number), ["VCPU", "MEMORY_MB"])
    amounts = pools.amounts(SERVERS[0])
    falls = pools.relief(amounts, np.array([0])) - pools.burden(amounts)
    fall, later = falls[2], pools.deviation_after(amounts, 0, falls)[2]
    before, imbalance = pools.dispersions(), pools.imbalance()
    cloud.move(SERVERS[0], 2)
    assert before - pools.dispersions() == pytest.approx(fall, abs=1e-12)
    assert imbalance - pools.imbalance() == pytest.approx(float(pools.gain(fall)), abs=1e-12)
    assert pools.deviations().sum() == pytest.approx(later, abs=1e-9)


def test_servers_stay_in_their_pool() -> None:
    cloud = cloud_of([8, 8, 8], *SERVERS)
    pools = Pools(cloud, np.array([0, 1, 0]), ["VCPU"])
    movers = [(each, How.EITHER.kinds) for each in SERVERS]
    moves = list(Levelling(cloud, pools, movers, lambda: None).moves(most=None, most_gib=None))
    assert [(move.server.uuid, move.row) for move in moves] == [("b", 2)]
