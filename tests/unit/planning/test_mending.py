# SPDX-License-Identifier: Apache-2.0
from dataclasses import replace

from tests.unit.planning.test_drain import cloud_of, server

from kilonova.model.aggregate import Aggregate
from kilonova.model.server_group import GroupView
from kilonova.planning.cloud import Cloud
from kilonova.planning.mending import violations
from kilonova.scheduler.aggregate_index import AggregateIndex
from kilonova.scheduler.memo import Memo


def test_each_server_has_at_most_one_violation() -> None:
    groups = {"g": GroupView("g", "anti-affinity", 1, {"host0": 2}), "h": GroupView("h", "affinity", 1, {"host1": 1})}
    servers = (
        *(server(uuid, 0, 1, group_uuid="g") for uuid in "ab"),
        server("c", 1, 1, group_uuid="h"),
        server("d", 2, 1, group_uuid="h"),
        server("e", 2, 9),
        server("f", 3, 1),
    )
    cloud = cloud_of([4, 4, 4, 4], *servers, groups=groups)
    apart = Aggregate(1, "u", "apart", ("host3",), {"kilonova:only": "project=another"})
    table = replace(cloud.hosts, aggregates=AggregateIndex.of((apart,), cloud.hosts.hosts), memo=Memo())
    found = violations(Cloud(table, cloud.engine, servers, groups))
    assert {each.server.uuid: each.rule for each in found} == {
        "a": "anti-affinity",
        "d": "affinity",
        "e": "capacity",
        "f": "isolation",
    }


def test_a_cloud_in_order_has_no_violations() -> None:
    assert violations(cloud_of([4, 4], server("a", 0, 1))) == []
