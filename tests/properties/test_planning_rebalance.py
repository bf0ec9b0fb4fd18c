# SPDX-License-Identifier: Apache-2.0
"""Rebalancing of random clouds: every step is accepted at any time of its wave, and no step makes the cloud worse."""

from itertools import groupby
from random import Random

import pytest

from kilonova.model.move_plan import How, Objective
from kilonova.planning.checked_waves import accepted
from kilonova.planning.cloud import Cloud
from kilonova.planning.plan import Limits
from kilonova.planning.rebalance import RebalanceRequest, measure, rebalance
from support.carried_out import carry_out, require_limits
from support.planned_clouds import random_cloud, with_violations
from support.samples import sampled


def request_of(chance: Random, cloud: Cloud) -> RebalanceRequest:
    aggregates = [each.id for each in cloud.hosts.aggregates.aggregates]
    return RebalanceRequest(
        chance.choice(tuple(Objective)),
        chance.choice(("VCPU", "MEMORY_MB", "DISK_GB")),
        chance.choice(aggregates) if aggregates and chance.random() < 0.2 else None,
        chance.choice((None, None, 1, 3)),
        chance.choice((None, None, 10.0)),
        chance.choice(tuple(How)),
        Limits(chance.choice((None, 1, 2))),
        locked_too=chance.random() < 0.5,
    )


def copy_of(cloud: Cloud) -> Cloud:
    return Cloud(cloud.hosts, cloud.engine, cloud.servers.values(), cloud.groups)


@pytest.mark.parametrize("seed", range(sampled(500, sample=25)))
def test_no_step_is_refused_or_makes_the_cloud_worse(seed: int) -> None:
    chance = Random(seed)
    cloud = random_cloud(seed, hosts=(2, 8), servers=(0, 30))
    asked = request_of(chance, cloud)
    if asked.objective is Objective.MEND:
        cloud = with_violations(chance, cloud)
    found = rebalance(cloud, asked)
    assert found == rebalance(cloud, asked), "the plan is deterministic"
    moves = found.plan.moves
    require_limits(cloud, moves, asked.limits)
    assert asked.moves is None or len(moves) <= asked.moves
    assert asked.gib is None or found.plan.gib <= asked.gib
    value = measure(cloud, asked)
    assert value() == pytest.approx(found.before)
    _require_no_worse_step(copy_of(cloud), asked, found.plan.moves, chance)
    carry_out(cloud, copy_of(cloud), moves, chance)
    assert value() == pytest.approx(found.after, abs=1e-9)
    assert found.after < found.before if moves else found.after == pytest.approx(found.before)


def _require_no_worse_step(cloud: Cloud, asked: RebalanceRequest, moves: tuple, chance: Random) -> None:  # type: ignore[type-arg]
    """Carry the moves out one by one, in random order within each wave."""
    value = measure(cloud, asked)
    before = value()
    for _, some in groupby(moves, key=lambda move: move.wave):
        wave = list(some)
        chance.shuffle(wave)
        begun = []
        for move in wave:
            there = accepted(cloud, move)
            assert there is not None
            begun.append(cloud.begin_move(move.server, there, move.kind))
        for each in begun:
            cloud.end_move(each)
            with cloud.branch():  # count the moves that have not ended as not begun
                for other in begun[begun.index(each) + 1 :]:
                    cloud._count(other.destination, other.server.guest, -1)
                    cloud._leave(other.server, other.destination.row, other.source.row)
                now = value()
            assert now <= before + 1e-9, f"{move} makes {asked.objective} worse: {before} -> {now}"
            before = now
