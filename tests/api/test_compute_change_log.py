# SPDX-License-Identifier: Apache-2.0
"""What the API logs is what the database holds: a mirror that followed equals one that loads."""

from typing import Any

from compute_cloud import Cloud

from kilonova.db import compute_nodes, mirror_source, services
from kilonova.db.database import Commit


def loaded(cloud: Cloud) -> dict[tuple[str, str], Any]:
    return {(change.kind, change.key): change.value for change in mirror_source.load(cloud.database).changes}


def test_following_equals_loading(cloud: Cloud) -> None:
    followed: dict[tuple[str, str], Any] = {}

    def follow(commit: Commit) -> None:
        for change in commit.changes:
            if change.kind == "heartbeat":
                for host in change.value["hosts"]:
                    followed["service", host]["last_seen"] = change.value["at"]
            elif change.value is None:
                del followed[change.kind, change.key]
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
    assert {kind for kind, _ in followed} == {"provider", "service", "node", "aggregate", "group"}
    assert followed == loaded(cloud)


def test_heartbeats_of_one_transaction_are_one_change(cloud: Cloud) -> None:
    for host in ("node1", "node2", "node3"):
        cloud.add_host(host, up=False)
    commits: list[Commit] = []
    cloud.database.on_commit(commits.append)

    def beat(tx: Any) -> None:
        services.record_heartbeats(tx, ["node1", "node2"])
        services.record_heartbeats(tx, ["node2", "node3"])

    cloud.database.write(beat)
    (change,) = commits[-1].changes
    assert (change.kind, change.key) == ("heartbeat", "")
    assert change.value["hosts"] == ["node1", "node2", "node3"]
    states = {service["state"] for service in cloud.admin.get("/os-services").body["services"]}
    assert states == {"up"}
    assert len(set(cloud.mirror.snapshot().last_seen)) == 1


def test_failed_builds_count_up_and_start_again(cloud: Cloud) -> None:
    node = cloud.add_host("node1")
    for expected in (1, 2):
        cloud.database.write(lambda tx: compute_nodes.count_failed_build(tx, node.uuid))
        assert list(cloud.mirror.snapshot().failed_builds) == [expected]
    seq = cloud.mirror.seq
    for _ in range(2):
        cloud.database.write(lambda tx: compute_nodes.reset_failed_builds(tx, [node.uuid]))
    assert list(cloud.mirror.snapshot().failed_builds) == [0]
    assert cloud.mirror.seq == seq + 1


def test_a_node_keeps_its_uuid_and_an_equal_report_writes_nothing(cloud: Cloud) -> None:
    first = cloud.add_host("node1")
    seq = cloud.mirror.seq
    assert cloud.add_host("node1", up=False) == first
    cloud.admin.delete("/os-services/1")
    assert cloud.mirror.seq == seq + 1
    assert cloud.add_host("node1").uuid != first.uuid
