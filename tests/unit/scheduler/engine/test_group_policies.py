# SPDX-License-Identifier: Apache-2.0
from dataclasses import replace

import pytest
from tests.unit.scheduler.small_cloud import host, request, table

from kilonova.errors import UnsupportedPolicy
from kilonova.model.server_group import GroupView
from kilonova.model.server_migration import MoveKind
from kilonova.scheduler.engine.engine import Engine
from kilonova.scheduler.engine.group_policies import group_for, require_support
from kilonova.scheduler.filters import ServerGroupAffinityFilter
from kilonova.scheduler.weighers import ServerGroupSoftAntiAffinityWeigher

ENGINE = Engine(filters=(ServerGroupAffinityFilter(),), weighers=(ServerGroupSoftAntiAffinityWeigher(),))
HOSTS = table(host("a", instances=("member",)), host("b"))
GROUP = GroupView("g", "affinity", hosts={"a": 1})


def test_a_policy_needs_its_filter_or_weigher() -> None:
    require_support(ENGINE, "affinity")
    require_support(ENGINE, "soft-anti-affinity")
    with pytest.raises(UnsupportedPolicy, match="ServerGroupAntiAffinityFilter"):
        require_support(ENGINE, "anti-affinity")
    with pytest.raises(UnsupportedPolicy, match="ServerGroupSoftAffinityWeigher"):
        require_support(ENGINE, "soft-affinity")


def test_a_member_that_moves_does_not_count_on_its_host() -> None:
    moved = replace(request(instance_uuids=("member",)), move=MoveKind.COLD_MIGRATE)
    alone = group_for(moved, GROUP, HOSTS)
    assert alone is not None
    assert alone.hosts == {}
    two = group_for(moved, replace(GROUP, hosts={"a": 2, "b": 1}), HOSTS)
    assert two is not None
    assert two.hosts == {"a": 1, "b": 1}


def test_other_requests_see_the_whole_group() -> None:
    assert group_for(request(instance_uuids=("member",)), GROUP, HOSTS) is GROUP
    moved = replace(request(instance_uuids=("stranger",)), move=MoveKind.COLD_MIGRATE)
    assert group_for(moved, GROUP, HOSTS) is GROUP
    assert group_for(moved, None, HOSTS) is None
