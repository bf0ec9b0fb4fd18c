# SPDX-License-Identifier: Apache-2.0
"""Drains of tiny clouds, compared with an exhaustive search over all sequences of moves of each server at most once."""

from random import Random

from tests.properties.test_planning_drain import request_of

from kilonova.planning.drain import drain
from support.exhaustive_drains import Search, TooLargeError
from support.planned_clouds import random_cloud
from support.samples import sampled

#: Share of the clouds whose plan may cost more than the best one; whose plan may leave more servers than necessary.
MOST_WORSE, MOST_LEFT = 0.05, 0.01


def test_plans_are_mostly_optimal() -> None:
    compared = worse = left = 0
    for seed in range(sampled(400, sample=30)):
        chance = Random(seed)
        cloud = random_cloud(seed, hosts=(2, 4), servers=(2, 8))
        asked = request_of(chance, cloud)
        plan = drain(cloud, asked)
        mine = len(plan.stays), round(plan.gib, 6), len(plan.moves)
        try:
            best = Search(cloud, asked).run()
        except TooLargeError:
            continue
        assert mine >= best, f"cloud {seed}: the exhaustive search missed a plan"
        compared += 1
        worse += mine != best
        left += mine[0] != best[0]
    print(f"{compared} clouds, {worse} plans cost more than the best one, {left} leave more servers")
    assert compared > 20
    assert worse <= max(1, MOST_WORSE * compared)
    assert left <= MOST_LEFT * compared
