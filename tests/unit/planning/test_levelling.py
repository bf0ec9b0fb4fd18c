# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
from tests.unit.planning.test_drain import cloud_of, server

from kilonova.planning.levelling import Levelling, Pools
from kilonova.planning.plan import How

SERVERS = (server("a", 0, 4), server("b", 0, 1), server("c", 1, 1), server("d", 2, 2))


def test_the_dispersion_is_the_variance_of_shares_weighted_by_capacity() -> None:
    cloud = cloud_of([8, 4, 12], *SERVERS)
    shares, weights = np.array([5 / 8, 1 / 4, 2 / 12]), np.array([8, 4, 12])
    mean = np.average(shares, weights=weights)
    expected = np.average((shares - mean) ** 2, weights=weights)
    assert Pools(cloud, np.zeros(3, dtype=np.int64), ["VCPU", "NONE"]).dispersion() == pytest.approx(expected)


def test_relief_and_burden_foresee_the_change_of_the_dispersion() -> None:
    cloud = cloud_of([8, 4, 12], *SERVERS)
    pools = Pools(cloud, np.zeros(3, dtype=np.int64), ["VCPU", "MEMORY_MB"])
    amounts = pools.amounts(SERVERS[0])
    relief, burden = pools.relief(amounts[np.newaxis], np.array([0]))[0], pools.burden(amounts)[2]
    before = pools.dispersion()
    cloud.move(SERVERS[0], 2)
    assert before - pools.dispersion() == pytest.approx(relief - burden, abs=1e-9)


def test_servers_stay_in_their_pool() -> None:
    cloud = cloud_of([8, 8, 8], *SERVERS)
    pools = Pools(cloud, np.array([0, 1, 0]), ["VCPU"])
    movers = [(each, How.EITHER.kinds) for each in SERVERS]
    moves = list(Levelling(cloud, pools, movers, lambda: None).moves(most=None, most_gib=None))
    assert [(move.server.uuid, move.row) for move in moves] == [("b", 2)]
