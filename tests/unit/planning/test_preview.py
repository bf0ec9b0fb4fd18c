# SPDX-License-Identifier: Apache-2.0
from dataclasses import replace

from kilonova.cli.wiring.rules import build_engine
from kilonova.model.aggregate import Aggregate
from kilonova.planning.cloud import Cloud
from kilonova.planning.preview import new_violations
from kilonova.scheduler.aggregate_index import AggregateIndex
from kilonova.scheduler.memo import Memo
from kilonova.scheduler.settings import SchedulerConfig
from support.planned_clouds import random_cloud

ENGINE = build_engine(
    SchedulerConfig(enabled_filters=("ComputeFilter", "AggregateTypeAffinityFilter", "AggregateNumInstancesFilter"))
)


def clouds(metadata: dict[str, str]) -> tuple[Cloud, Cloud]:
    """Return a random cloud without aggregates, and the same with one of its first host, which has servers."""
    found = random_cloud(3, hosts=(3, 3), servers=(12, 12))
    bare = replace(found.hosts, aggregates=AggregateIndex.of((), found.hosts.hosts), memo=Memo())
    rack = Aggregate(1, "u", "rack", (found.hosts.hosts[0],), metadata)
    with_rack = replace(found.hosts, aggregates=AggregateIndex.of((rack,), found.hosts.hosts), memo=Memo())
    servers = tuple(found.servers.values())
    assert any(server.row == 0 for server in servers)
    return Cloud(bare, ENGINE, servers, found.groups), Cloud(with_rack, ENGINE, servers, found.groups)


def test_nothing_is_violated_without_a_change() -> None:
    before, _ = clouds({})
    assert new_violations(before, before) == []


def test_servers_of_the_changed_host_violate_its_rule() -> None:
    before, after = clouds({"instance_type": "no such flavor"})
    found = new_violations(before, after)
    there = sorted(uuid for uuid, server in after.servers.items() if server.row == 0)
    assert [each.server.uuid for each in found] == there
    assert {each.rule for each in found} == {"AggregateTypeAffinityFilter"}


def test_a_server_is_not_counted_against_itself() -> None:
    before, _ = clouds({})
    count = int(before.hosts.num_instances[0])
    for most, violates in ((count, False), (count - 1, True)):
        before, after = clouds({"max_instances_per_host": str(most)})
        used = after.hosts.num_instances.copy()
        assert bool(new_violations(before, after)) is violates
        assert (after.hosts.num_instances == used).all(), "the cloud is put back"
