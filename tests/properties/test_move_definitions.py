# SPDX-License-Identifier: Apache-2.0
"""The rules on hypervisors and abilities equal their reference definition for one host."""

from collections import Counter
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.properties.strategies import Cloud, clouds, requests

from kilonova.model.ability import Ability
from kilonova.model.request_spec import RequestSpec
from kilonova.model.server_migration import MoveKind
from kilonova.scheduler.engine.engine import Engine
from kilonova.scheduler.engine.move_rules import ABILITY_RULE, HYPERVISOR_RULE
from kilonova.scheduler.explanations.explain import explain
from kilonova.scheduler.host_records import HostRecord
from kilonova.scheduler.resources import with_resources
from support.random_clouds import INSTANCES
from support.samples import sampled

RULES = (HYPERVISOR_RULE, ABILITY_RULE)
CARRIED_BY = {
    MoveKind.RESIZE: Ability.COLD_MIGRATE,
    MoveKind.COLD_MIGRATE: Ability.COLD_MIGRATE,
    MoveKind.LIVE_MIGRATE: Ability.LIVE_MIGRATE,
}
MOVES = st.sampled_from(MoveKind)


def may_go(move: MoveKind, host: HostRecord, home: HostRecord | None) -> bool:
    """Return whether hypervisor type and abilities allow a server to move to a host."""
    can = host.capabilities.can
    if move is MoveKind.UNSHELVE:
        return True
    if move not in CARRIED_BY:
        return can(Ability.REBUILD)
    ability = CARRIED_BY[move]
    if home is None:
        return can(ability)
    if host is home:
        return move is not MoveKind.RESIZE or can(Ability.RESIZE_SAME_HOST)
    same = host.capabilities.hypervisor_type == home.capabilities.hypervisor_type
    return same and can(ability) and home.capabilities.can(ability)


def refused(cloud: Cloud, spec: RequestSpec) -> list[bool]:
    story = explain(cloud.table(), spec, Engine())
    return [any(rule in RULES for rule, _ in story.reasons(row)) for row in range(len(cloud.records))]


@settings(deadline=None)
@given(cloud=clouds(), spec=requests, move=MOVES, uuid=st.sampled_from((*INSTANCES, "unknown")))
def test_a_server_goes_where_hypervisor_and_abilities_allow_it(
    cloud: Cloud, spec: RequestSpec, move: MoveKind, uuid: str
) -> None:
    spec = with_resources(spec.moving(move, uuid))
    home = next((host for host in cloud.records if uuid in host.instances), None)
    expected = [not may_go(move, host, home) for host in cloud.records]
    assert refused(cloud, spec) == expected
    forced = replace(spec, force_host=cloud.records[0].host)
    assert refused(cloud, forced) == expected, "a forced host cannot replace an ability"


@settings(deadline=None)
@given(cloud=clouds(), spec=requests)
def test_new_servers_go_anywhere(cloud: Cloud, spec: RequestSpec) -> None:
    assert not any(refused(cloud, with_resources(replace(spec, move=None))))


def test_random_clouds_have_hosts_of_all_sorts() -> None:
    """Without such hosts the properties above would hold trivially."""
    found: Counter[bool] = Counter()

    @settings(deadline=None, max_examples=sampled(200, sample=60), database=None, derandomize=True)
    @given(cloud=clouds(), move=st.sampled_from(list(CARRIED_BY)), uuid=st.sampled_from(INSTANCES))
    def count(cloud: Cloud, move: MoveKind, uuid: str) -> None:
        home = next((host for host in cloud.records if uuid in host.instances), None)
        if home is not None:
            found.update(may_go(move, host, home) for host in cloud.records if host is not home)

    count()
    assert min(found[True], found[False]) > 10, found
