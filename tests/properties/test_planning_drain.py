# SPDX-License-Identifier: Apache-2.0
"""Drains of random clouds: the scheduler accepts every step at any time of its wave, and no server is forgotten."""

from random import Random

import pytest

from kilonova.model.move_plan import How
from kilonova.planning.cloud import Cloud
from kilonova.planning.drain import DrainRequest, drain
from kilonova.planning.plan import Limits
from support.carried_out import carry_out, require_limits
from support.planned_clouds import random_cloud
from support.samples import sampled


def request_of(chance: Random, cloud: Cloud) -> DrainRequest:
    hosts = chance.sample(cloud.hosts.hosts, min(len(cloud.hosts) - 1, chance.choice((1, 1, 1, 2))))
    limits = Limits(chance.choice((None, 1, 2)), chance.choice((None, None, 3)), chance.choice((None, 12.0)))
    return DrainRequest(frozenset(hosts), chance.choice(tuple(How)), limits, locked_too=chance.random() < 0.5)


@pytest.mark.parametrize("seed", range(sampled(500, sample=25)))
def test_a_drain_is_valid_at_every_step(seed: int) -> None:
    chance = Random(seed)
    cloud = random_cloud(seed)
    before = Cloud(cloud.hosts, cloud.engine, cloud.servers.values(), cloud.groups)
    asked = request_of(chance, cloud)
    plan = drain(cloud, asked)
    assert plan == drain(cloud, asked), "the plan is deterministic"
    require_limits(cloud, plan.moves, asked.limits)
    rows = {row for host in asked.hosts for row in cloud.hosts.rows_of_host()[host]}
    there = {server.uuid for row in rows for server in cloud.servers_on(row)}
    moved = [move.server.uuid for move in plan.moves]
    assert len(set(moved)) == len(moved), "each server moves once"
    stays = {stay.server.uuid for stay in plan.stays}
    assert (set(moved) & there) | stays == there
    assert not set(moved) & stays
    assert all(move.row not in rows and move.kind in asked.how.kinds for move in plan.moves)
    carry_out(cloud, before, plan.moves, chance)
    assert {server.uuid for row in rows for server in cloud.servers_on(row)} == stays
    for stay in plan.stays:
        assert stay.reason
