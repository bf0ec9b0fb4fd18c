# SPDX-License-Identifier: Apache-2.0
"""Carrying out of plans on a planned cloud, each move after a full decision, in random order within its wave."""

from collections import Counter
from itertools import groupby
from random import Random

from kilonova.planning.checked_waves import accepted
from kilonova.planning.cloud import BegunMove, Cloud
from kilonova.planning.plan import Limits, PlannedMove


def require_no_violation(cloud: Cloud, before: Cloud) -> None:
    """Assert that hosts are within their capacity and anti-affinity groups within their limits, if they were so."""
    hosts = cloud.hosts
    over = hosts.used > hosts.capacity
    assert not (over & (before.hosts.used <= before.hosts.capacity)).any(), "a host is over its capacity"
    for uuid, group in cloud.groups.items():
        if group.policy == "anti-affinity":
            was = before.groups[uuid].hosts
            most = {host: max(group.max_server_per_host, was.get(host, 0)) for host in group.hosts}
            assert all(count <= most[host] for host, count in group.hosts.items()), group
    for row in range(len(hosts)):
        for cell in hosts.devices_of(row).cells:
            assert cell.pinned <= cell.pcpuset
        assert all(pool.used <= pool.total for pool in hosts.devices_of(row).pools)


def carry_out(cloud: Cloud, before: Cloud, moves: tuple[PlannedMove, ...], chance: Random) -> None:
    """Carry the moves out on the cloud; the sources of a wave become free at random moments of the wave."""
    for _, some in groupby(moves, key=lambda move: move.wave):
        wave = list(some)
        chance.shuffle(wave)
        begun: list[BegunMove] = []
        for move in wave:
            assert cloud.row_of(move.server) == move.source
            there = accepted(cloud, move)
            assert there is not None, f"{move} is refused"
            begun.append(cloud.begin_move(move.server, there, move.kind))
            require_no_violation(cloud, before)
            while begun and chance.random() < 0.3:
                cloud.end_move(begun.pop(chance.randrange(len(begun))))
        for each in begun:
            cloud.end_move(each)
        require_no_violation(cloud, before)


def require_limits(cloud: Cloud, moves: tuple[PlannedMove, ...], limits: Limits) -> None:
    """Assert that each wave keeps the limits, and that waves are numbered from 0 without gaps."""
    assert [move.wave for move in moves] == sorted(move.wave for move in moves)
    assert {move.wave for move in moves} == set(range(moves[-1].wave + 1 if moves else 0))
    for _, some in groupby(moves, key=lambda move: move.wave):
        wave = list(some)
        hosts = Counter(cloud.hosts.hosts[row] for move in wave for row in (move.source, move.row))
        assert limits.per_wave is None or len(wave) <= limits.per_wave
        assert limits.per_host is None or max(hosts.values()) <= limits.per_host
        assert len({move.server.uuid for move in wave}) == len(wave)
