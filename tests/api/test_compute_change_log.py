# SPDX-License-Identifier: Apache-2.0
"""What the API logs is what the database holds: a mirror that followed equals one that loads."""

from dataclasses import replace
from typing import Any

import msgspec
from msgspec import structs

from api.compute_cloud import Cloud
from kilonova.db import compute_nodes, host_agents, mirror_source
from kilonova.db.change_log.changes import NOWHERE, Change, Commit
from kilonova.db.core.transaction import Transaction
from kilonova.db.host_agents import Process
from kilonova.model.host import ComputeNode, NodeReport
from support.databases import on_every_database

pytestmark = on_every_database


def loaded(cloud: Cloud) -> dict[tuple[str, str], Any]:
    with mirror_source.load(cloud.database) as state:
        return {(change.kind, change.key): change.value for change in state.changes}


def stored(changes: dict[tuple[str, str], Any]) -> dict[tuple[str, str], Any]:
    """Return what others would read."""
    return {key: msgspec.json.decode(msgspec.json.encode(value)) for key, value in changes.items()}


def sorted_sets(changes: dict[tuple[str, str], Any]) -> dict[tuple[str, str], Any]:
    """Order what has no order: the traits and aggregates of providers."""
    return {
        (kind, key): structs.replace(value, traits=sorted(value.traits), aggregates=sorted(value.aggregates))
        if kind == "provider"
        else value
        for (kind, key), value in changes.items()
    }


def test_following_equals_loading(cloud: Cloud) -> None:
    followed: dict[tuple[str, str], Any] = {}

    def follow(commit: Commit) -> None:
        for change in commit.changes:
            if change.value is None:
                del followed[change.kind, change.key]
            elif change.key == NOWHERE:  # with its only host goes the mention of its agent
                for host in change.value.hosts:
                    del followed["agents", f"process of {host}"]
            else:
                followed[change.kind, change.key] = change.value

    cloud.database.on_commit(follow)
    admin = cloud.admin.at("2.64")
    nodes = [cloud.add_host(host) for host in ("node1", "node2", "node3")]
    cloud.add_service("control1", "nova-scheduler")
    for name, zone in (("a", "az1"), ("b", None), ("c", None)):
        admin.post("/os-aggregates", {"aggregate": {"name": name, "availability_zone": zone}})
    for aggregate_id, host in ((1, "node1"), (1, "node2"), (2, "node1"), (2, "node3")):
        admin.post(f"/os-aggregates/{aggregate_id}/action", {"add_host": {"host": host}})
    admin.post("/os-aggregates/2/action", {"set_metadata": {"metadata": {"ssd": "true", "x": "y"}}})
    admin.post("/os-aggregates/2/action", {"set_metadata": {"metadata": {"x": None}}})
    admin.post("/os-aggregates/1/action", {"remove_host": {"host": "node2"}})
    admin.put("/os-aggregates/1", {"aggregate": {"name": "renamed", "availability_zone": "az2"}})
    admin.delete("/os-aggregates/3")
    ids = {service["host"]: service["id"] for service in admin.get("/os-services").body["services"]}
    admin.put(f"/os-services/{ids['node2']}", {"status": "disabled", "disabled_reason": "x", "forced_down": True})
    admin.delete(f"/os-services/{ids['node3']}")
    for policy in ("affinity", "anti-affinity"):
        group = admin.post("/os-server-groups", {"server_group": {"name": "g", "policy": policy}})
    admin.delete(f"/os-server-groups/{group.body['server_group']['id']}")
    cloud.database.write(lambda tx: compute_nodes.count_failed_build(tx, nodes[0].uuid))
    of_hosts = {"provider", "service", "node", "process", "agents"}
    assert {kind for kind, _ in followed} == of_hosts | {"aggregate", "isolation", "group"}  # zones raise its version
    assert stored(sorted_sets(followed)) == stored(sorted_sets(loaded(cloud)))


def test_a_process_that_comes_goes_or_is_back_is_one_change_however_many_hosts_it_has(cloud: Cloud) -> None:
    names = ["node1", "node2", "node3"]
    for host in names:
        cloud.add_host(host, up=False)
    told = changes_of(cloud)
    process = Process("the process")

    def register(tx: Transaction) -> None:
        host_agents.register(tx, process, names[:2], host_agents.LEASE)
        host_agents.register(tx, process, names[1:], host_agents.LEASE)

    def states() -> set[str]:
        return {service["state"] for service in cloud.admin.get("/os-services").body["services"]}

    cloud.database.write(register)
    assert [(change.kind, change.key) for change in told] == [("process", process.uuid), ("agents", process.uuid)]
    assert told[1].value.hosts == names
    assert states() == {"up"}
    table = cloud.mirror.snapshot()
    assert set(table.last_seen) == {table.taken_at}
    del told[:]
    for _ in range(3):
        assert cloud.database.write(lambda tx: host_agents.keep_alive(tx, [process.uuid], host_agents.LEASE))
    assert told == []
    cloud.age("node1", 600)
    assert states() == {"down"}
    cloud.database.write(lambda tx: host_agents.keep_alive(tx, [process.uuid], host_agents.LEASE))
    assert states() == {"up"}
    assert [(change.kind, change.key) for change in told] == [("process", process.uuid)] * 2
    assert [change.value.silent_since is None for change in told] == [False, True]


def test_failed_builds_count_up_and_start_again(cloud: Cloud) -> None:
    node = cloud.add_host("node1")
    for expected in (1, 2):
        cloud.database.write(lambda tx: compute_nodes.count_failed_build(tx, node.uuid))
        assert list(cloud.mirror.snapshot().failed_builds) == [expected]
    commits = changes_of(cloud)
    for _ in range(2):
        cloud.database.write(lambda tx: compute_nodes.reset_failed_builds(tx, [node.uuid]))
    assert list(cloud.mirror.snapshot().failed_builds) == [0]
    assert [change.kind for change in commits] == ["node"]


def test_a_node_keeps_its_uuid_and_an_equal_report_writes_nothing(cloud: Cloud) -> None:
    first = cloud.add_host("node1")
    changes = changes_of(cloud)
    (again,) = cloud.database.write(lambda tx: compute_nodes.report_all(tx, [report_of(first)]))
    assert (again, changes) == (first, [])
    other = replace(report_of(first), host_ip="10.0.0.8")
    (moved,) = cloud.database.write(lambda tx: compute_nodes.report_all(tx, [other]))
    assert (moved.uuid, moved.host_ip) == (first.uuid, "10.0.0.8")
    assert [change.kind for change in changes] == ["node"]
    cloud.admin.delete("/os-services/1")
    assert cloud.add_host("node1").uuid != first.uuid


def changes_of(cloud: Cloud) -> list[Change]:
    """Return a list to which every change from now on is added."""
    changes: list[Change] = []
    cloud.database.on_commit(lambda commit: changes.extend(commit.changes))
    return changes


def report_of(node: ComputeNode) -> NodeReport:
    return NodeReport(node.host, node.hypervisor_hostname, node.capabilities, (), host_ip=node.host_ip)
