# SPDX-License-Identifier: Apache-2.0
"""Losses equal evacuations that the engine decides one by one; the exhaustive search leaves over no more servers."""

from collections.abc import Sequence
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kilonova.model.server_migration import MoveKind
from kilonova.planning.cloud import Cloud, DoesNotFitError
from kilonova.planning.losses import Losses
from kilonova.planning.planned_server import PlannedServer
from kilonova.scheduler.decision import SURVIVED
from kilonova.scheduler.devices.choice import first_that_gives
from support.planned_clouds import random_cloud
from support.samples import sampled


def size_of(server: PlannedServer) -> tuple[int, int, int, str]:
    totals = server.spec.query.totals
    cpus = totals.get("VCPU", 0) + totals.get("PCPU", 0)
    return -totals.get("MEMORY_MB", 0), -cpus, -totals.get("DISK_GB", 0), server.uuid


def evacuated(cloud: Cloud, rows: Sequence[int]) -> list[str]:
    """Evacuate hosts, each server by a decision of the whole engine; return the servers that are left over."""
    names = {cloud.hosts.hosts[row] for row in rows}
    left = []
    with cloud.branch():
        for server in sorted((each for row in rows for each in cloud.servers_on(row)), key=size_of):
            decision = cloud.decide(server, MoveKind.EVACUATE, leaving=names)
            best, _ = first_that_gives(decision, cloud.hosts, server.needs)
            if best is None:
                left.append(server.uuid)
            else:
                cloud.move(server, best.row)
    return left


def fewest_left(cloud: Cloud, rows: Sequence[int], servers: Sequence[PlannedServer], most: int) -> int:
    """Return the smallest number of servers left over, with any order and any hosts; at most ``most``."""
    names = {cloud.hosts.hosts[row] for row in rows}
    best = min(most, len(servers))
    for number, server in enumerate(servers):
        others = [*servers[:number], *servers[number + 1 :]]
        decision = cloud.decide(server, MoveKind.EVACUATE, leaving=names)
        for row in [row for row, rule in enumerate(decision.removed_by.tolist()) if rule == SURVIVED]:
            if not best:
                return 0
            with cloud.branch():
                try:
                    cloud.move(server, row)
                except DoesNotFitError:
                    continue
                best = min(best, fewest_left(cloud, rows, others, best))
    return best


@settings(deadline=None, max_examples=sampled(2000, sample=60))
@given(seed=st.integers(0, 2**32))
def test_losses_are_evacuations_one_after_the_other(seed: int) -> None:
    cloud = random_cloud(seed, hosts=(2, 8))
    chance = Random(seed)
    losses = Losses(cloud)
    rows = list(range(len(cloud.hosts)))
    before = cloud.hosts.used.tolist(), cloud.hosts.devices.tolist(), dict(cloud.groups)
    for lost in [[row] for row in rows] + [sorted(chance.sample(rows, 2)), rows[1:]]:
        found = losses.of(lost)
        assert [each.server.uuid for each in found.left_over] == evacuated(cloud, lost)
        assert found.servers == sum(len(cloud.servers_on(row)) for row in lost)
        assert all(each.reasons for each in found.left_over)
    assert (cloud.hosts.used.tolist(), cloud.hosts.devices.tolist(), dict(cloud.groups)) == before


@settings(deadline=None, max_examples=sampled(500, sample=30))
@given(seed=st.integers(0, 2**32))
def test_an_exhaustive_search_leaves_over_no_more(seed: int) -> None:
    cloud = random_cloud(seed, hosts=(2, 4), servers=(0, 8))
    for row in range(len(cloud.hosts)):
        servers = cloud.servers_on(row)
        if len(servers) <= 4:
            left = len(Losses(cloud).of([row]).left_over)
            assert fewest_left(cloud, [row], servers, left) <= left


@pytest.mark.parametrize("k", [1, 2])
@settings(deadline=None, max_examples=sampled(300, sample=20))
@given(seed=st.integers(0, 2**32))
def test_any_hosts_of_a_zone(k: int, seed: int) -> None:
    cloud = random_cloud(seed, hosts=(2, 6))
    losses = Losses(cloud)
    for zone in losses.of_any(k, "nova"):
        rows = [row for row in range(len(cloud.hosts)) if zone_of(cloud, row) == zone.zone]
        assert zone.hosts == len(rows)
        every = [[one] for one in rows] if k == 1 else [[a, b] for a in rows for b in rows if a < b] or [rows]
        most = max(len(evacuated(cloud, lost)) for lost in every)
        assert zone.survives is (most == 0)
        assert len(zone.worst.left_over if zone.worst else ()) == most
        assert zone.sets == len(every)


def zone_of(cloud: Cloud, row: int) -> str:
    host = cloud.hosts.hosts[row]
    zones = [each.availability_zone for each in cloud.hosts.aggregates.aggregates if host in each.hosts]
    return next((zone for zone in reversed(zones) if zone is not None), "nova")


@settings(deadline=None, max_examples=sampled(300, sample=20))
@given(seed=st.integers(0, 2**32))
def test_whole_zones(seed: int) -> None:
    cloud = random_cloud(seed, hosts=(2, 6))
    for zone in Losses(cloud).of_zones("nova"):
        rows = [row for row in range(len(cloud.hosts)) if zone_of(cloud, row) == zone.zone]
        assert zone.worst is not None
        assert [each.server.uuid for each in zone.worst.left_over] == evacuated(cloud, rows)
