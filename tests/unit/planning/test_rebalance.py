# SPDX-License-Identifier: Apache-2.0
from typing import Any

import pytest
from tests.unit.planning.test_drain import cloud_of, server

from kilonova.model.move_plan import Objective
from kilonova.model.server_group import GroupView
from kilonova.model.server_migration import MoveKind
from kilonova.planning.cloud import Cloud
from kilonova.planning.rebalance import Rebalanced, RebalanceRequest, rebalance


def improved(cloud: Cloud, objective: Objective, **options: Any) -> Rebalanced:
    return rebalance(cloud, RebalanceRequest(objective, **options))


def places(found: Rebalanced) -> list[tuple[str, int, int]]:
    return [(move.server.uuid, move.source, move.row) for move in found.plan.moves]


def test_the_best_moves_come_first() -> None:
    cloud = cloud_of([8, 8], server("big", 0, 4), server("small", 0, 1), server("other", 0, 2))
    found = improved(cloud, Objective.LEVEL, resource="VCPU")
    assert places(found) == [("big", 0, 1)]
    assert (found.before, found.after) == (pytest.approx(3.5 / 8), pytest.approx((0.5 / 8) ** 2 / (3.5 / 8)))


def test_limits_of_moves_and_gib() -> None:
    cloud = cloud_of([9, 9, 9], *(server(f"s{number}", 0, 1, disk_gib=number) for number in range(1, 8)))
    assert len(improved(cloud, Objective.SPREAD, moves=2).plan.moves) == 2
    assert improved(cloud, Objective.SPREAD, gib=6.0).plan.gib <= 6.0
    assert len(improved(cloud, Objective.SPREAD).plan.moves) == 4


def test_hosts_of_different_size_get_equal_shares() -> None:
    cloud = cloud_of([4, 12], *(server(f"s{number}", 0, 1) for number in range(4)))
    found = improved(cloud, Objective.LEVEL, resource="VCPU")
    assert len(found.plan.moves) == 3
    assert found.after == pytest.approx(0)


def test_a_host_is_freed_completely_or_not_at_all() -> None:
    servers = [server("a", 0, 2), server("b", 1, 2), server("c", 1, 2), server("d", 2, 4)]
    found = improved(cloud_of([6, 6, 6, 6], *servers), Objective.PACK)
    assert (found.before, found.after) == (3, 2)
    assert {uuid for uuid, _, _ in places(found)} == {"a"}
    assert all(row != 3 for _, _, row in places(found)), "free hosts stay free"
    fixed = dict.fromkeys(MoveKind, "fixed")
    cloud = cloud_of(
        [6, 6], server("a", 0, 1), server("b", 0, 1, hindrances=fixed), server("c", 1, 1, hindrances=fixed)
    )
    assert improved(cloud, Objective.PACK).plan.moves == ()


def test_members_of_a_group_are_separated_again() -> None:
    group = GroupView("g", "anti-affinity", 1, {"host0": 2})
    cloud = cloud_of([4, 4], *(server(uuid, 0, 1, group_uuid="g") for uuid in "ab"), groups={"g": group})
    found = improved(cloud, Objective.MEND)
    assert places(found) == [("a", 0, 1)]
    assert (found.before, found.after) == (1, 0)


def test_members_of_an_affinity_group_are_brought_together() -> None:
    group = GroupView("g", "affinity", 1, {"host0": 1})
    cloud = cloud_of([4, 4], *(server(f"s{row}", row, 1, group_uuid="g") for row in range(2)), groups={"g": group})
    assert places(improved(cloud, Objective.MEND)) == [("s1", 1, 0)]


def test_a_host_over_its_capacity_loses_servers() -> None:
    cloud = cloud_of([2, 4], server("a", 0, 2, disk_gib=9), server("b", 0, 1, disk_gib=1))
    found = improved(cloud, Objective.MEND)
    assert places(found) == [("b", 0, 1)]
    assert (found.before, found.after) == (1, 0)


def test_what_cannot_be_mended_has_a_reason() -> None:
    cloud = cloud_of([2, 2], server("a", 0, 3), server("b", 1, 3, locked=True))
    reasons = {stay.server.uuid: stay.reason for stay in improved(cloud, Objective.MEND).plan.stays}
    assert reasons["a"].endswith("but no host can take the server")
    assert reasons["b"].endswith("but the server is locked")
