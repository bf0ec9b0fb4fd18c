# SPDX-License-Identifier: Apache-2.0
from typing import Any

import pytest

from api.compute_cloud import Cloud
from support.api_client import Answer, Client
from support.databases import on_every_database

pytestmark = on_every_database


def make(client: Client, name: str = "fast-io", zone: str | None = None) -> dict[str, Any]:
    answer = client.post("/os-aggregates", {"aggregate": {"name": name, "availability_zone": zone}})
    assert answer.status == 200, answer.body
    view: dict[str, Any] = answer.body["aggregate"]
    return view


def act(client: Client, aggregate_id: object, **action: Any) -> Answer:
    return client.post(f"/os-aggregates/{aggregate_id}/action", action)


def add(client: Client, aggregate_id: object, host: str) -> Answer:
    return act(client, aggregate_id, add_host={"host": host})


def remove(client: Client, aggregate_id: object, host: str) -> Answer:
    return act(client, aggregate_id, remove_host={"host": host})


def tag(client: Client, aggregate_id: object, **metadata: str | None) -> Answer:
    return act(client, aggregate_id, set_metadata={"metadata": metadata})


def test_created_with_a_zone_it_is_answered_without_hosts_and_metadata(cloud: Cloud) -> None:
    made = make(cloud.admin, zone="az1")
    assert made.pop("created_at").count(":") == 2
    assert made == {
        "id": 1,
        "name": "fast-io",
        "availability_zone": "az1",
        "updated_at": None,
        "deleted": False,
        "deleted_at": None,
    }
    shown = cloud.admin.get("/os-aggregates/1").body["aggregate"]
    assert shown["hosts"] == []
    assert shown["metadata"] == {"availability_zone": "az1"}


def test_its_uuid_is_shown_from_2_41(cloud: Cloud) -> None:
    assert "uuid" not in make(cloud.admin.at("2.40"), "a")
    made = make(cloud.admin.at("2.41"), "b")
    listed = cloud.admin.at("2.41").get("/os-aggregates").body["aggregates"]
    assert [aggregate["name"] for aggregate in listed] == ["a", "b"]
    assert listed[1]["uuid"] == made["uuid"]
    assert cloud.admin.at("2.41").get("/os-aggregates/2").body["aggregate"]["uuid"] == made["uuid"]


def test_ids_are_never_used_again(cloud: Cloud) -> None:
    make(cloud.admin, "a")
    assert cloud.admin.delete("/os-aggregates/1").status == 200
    assert make(cloud.admin, "b")["id"] == 2


def test_a_name_is_taken_once(cloud: Cloud) -> None:
    make(cloud.admin, "a")
    make(cloud.admin, "b")
    again = cloud.admin.post("/os-aggregates", {"aggregate": {"name": "a"}})
    assert again.status == 409
    assert again.fault[0] == "conflictingRequest"
    assert cloud.admin.put("/os-aggregates/2", {"aggregate": {"name": "a"}}).status == 409
    assert cloud.admin.put("/os-aggregates/1", {"aggregate": {"name": "a"}}).status == 200


def test_a_host_joins_and_leaves(cloud: Cloud) -> None:
    cloud.add_host("node1")
    cloud.add_host("node2")
    make(cloud.admin)
    assert add(cloud.admin, 1, "node2").body["aggregate"]["hosts"] == ["node2"]
    joined = add(cloud.admin, 1, "node1")
    assert joined.status == 200
    assert joined.body["aggregate"]["hosts"] == ["node2", "node1"]
    assert add(cloud.admin, 1, "node1").status == 409
    left = remove(cloud.admin, 1, "node2")
    assert left.body["aggregate"]["hosts"] == ["node1"]
    assert remove(cloud.admin, 1, "node2").status == 404


def test_an_unknown_host_is_404(cloud: Cloud) -> None:
    make(cloud.admin)
    cloud.add_service("control1", "nova-scheduler")
    for host in ("nowhere", "control1"):
        answer = add(cloud.admin, 1, host)
        assert answer.status == 404
        assert host in answer.fault[1]
        assert remove(cloud.admin, 1, host).status == 404


def test_membership_is_mirrored_into_placement_with_a_new_generation(cloud: Cloud) -> None:
    node = cloud.add_host("node1")
    made = make(cloud.admin.at("2.41"))
    before = cloud.provider(node.uuid)["generation"]
    add(cloud.admin, 1, "node1")
    joined = cloud.provider(node.uuid)
    assert joined["aggregates"] == {made["uuid"]}
    assert joined["generation"] == before + 1
    tag(cloud.admin, 1, ssd="true")
    assert cloud.provider(node.uuid) == joined
    remove(cloud.admin, 1, "node1")
    assert cloud.provider(node.uuid) == {"generation": before + 2, "traits": set(), "aggregates": set()}


def test_every_hypervisor_of_a_host_is_mirrored(cloud: Cloud) -> None:
    first = cloud.add_host("node1", "one", "two")
    made = make(cloud.admin.at("2.41"))
    add(cloud.admin, 1, "node1")
    hypervisors = cloud.admin.at("2.53").get("/os-hypervisors").body["hypervisors"]
    assert {cloud.provider(each["id"])["aggregates"] == {made["uuid"]} for each in hypervisors} == {True}
    assert first.uuid == hypervisors[0]["id"]


def test_metadata_is_merged_and_null_removes_a_key(cloud: Cloud) -> None:
    make(cloud.admin)
    tag(cloud.admin, 1, ssd="true", gpu="no")
    merged = tag(cloud.admin, 1, ssd="false", gpu=None, absent=None)
    assert merged.status == 200
    assert merged.body["aggregate"]["metadata"] == {"ssd": "false"}
    assert cloud.mirror.snapshot().aggregates.aggregates[0].metadata == {"ssd": "false"}


def test_a_zone_is_the_metadata_key_availability_zone(cloud: Cloud) -> None:
    make(cloud.admin)
    named = tag(cloud.admin, 1, availability_zone="az1").body["aggregate"]
    assert named["availability_zone"] == "az1"
    moved = cloud.admin.put("/os-aggregates/1", {"aggregate": {"availability_zone": "az2"}}).body["aggregate"]
    assert moved["metadata"] == {"availability_zone": "az2"}
    assert moved["updated_at"] is not None


@pytest.mark.parametrize("empty", ["", None])
def test_a_zone_cannot_be_taken_away(cloud: Cloud, empty: str | None) -> None:
    make(cloud.admin, zone="az1")
    for answer in (
        tag(cloud.admin, 1, availability_zone=empty),
        cloud.admin.put("/os-aggregates/1", {"aggregate": {"availability_zone": empty}}),
    ):
        assert answer.status == 400
        assert "availability_zone" in answer.fault[1]
    assert cloud.admin.get("/os-aggregates/1").body["aggregate"]["availability_zone"] == "az1"


def test_a_host_is_in_one_zone_only(cloud: Cloud) -> None:
    cloud.add_host("node1")
    for name, zone in (("a", "az1"), ("b", "az2"), ("c", None), ("d", "az1")):
        make(cloud.admin, name, zone)
    assert add(cloud.admin, 1, "node1").status == 200
    assert add(cloud.admin, 2, "node1").status == 409
    assert add(cloud.admin, 3, "node1").status == 200
    assert add(cloud.admin, 4, "node1").status == 200
    before = cloud.everything()
    assert tag(cloud.admin, 3, availability_zone="az2", ssd="true").status == 400
    assert cloud.admin.put("/os-aggregates/3", {"aggregate": {"name": "x", "availability_zone": "az2"}}).status == 400
    assert cloud.admin.put("/os-aggregates/1", {"aggregate": {"availability_zone": "az9"}}).status == 400
    assert cloud.everything() == before
    assert tag(cloud.admin, 3, availability_zone="az1").status == 200


def test_the_zone_of_hosts_with_servers_stays(cloud: Cloud) -> None:
    cloud.add_host("node1")
    make(cloud.admin, "a", "az1")
    make(cloud.admin, "b")
    add(cloud.admin, 1, "node1")
    add(cloud.admin, 2, "node1")
    server = cloud.add_server("node1")
    assert cloud.admin.put("/os-aggregates/1", {"aggregate": {"availability_zone": "az2"}}).status == 400
    assert tag(cloud.admin, 1, availability_zone="az2").status == 400
    assert tag(cloud.admin, 2, availability_zone="az1").status == 400
    assert tag(cloud.admin, 1, availability_zone="az1").status == 200
    assert remove(cloud.admin, 1, "node1").status == 409
    assert remove(cloud.admin, 2, "node1").status == 200
    cloud.remove_server(server)
    assert remove(cloud.admin, 1, "node1").status == 200


def test_a_host_with_servers_does_not_enter_another_zone(cloud: Cloud) -> None:
    cloud.add_host("node1")
    for name, zone in (("a", "az1"), ("b", None), ("c", "nova")):
        make(cloud.admin, name, zone)
    cloud.add_server("node1")
    refused = add(cloud.admin, 1, "node1")
    assert refused.status == 409
    assert "az1" in refused.fault[1]
    assert add(cloud.admin, 2, "node1").status == 200
    assert add(cloud.admin, 3, "node1").status == 200
    assert remove(cloud.admin, 3, "node1").status == 200


def test_only_an_empty_aggregate_is_deleted(cloud: Cloud) -> None:
    cloud.add_host("node1")
    make(cloud.admin, zone="az1")
    add(cloud.admin, 1, "node1")
    assert cloud.admin.delete("/os-aggregates/1").status == 400
    remove(cloud.admin, 1, "node1")
    deleted = cloud.admin.delete("/os-aggregates/1")
    assert (deleted.status, deleted.raw) == (200, b"")
    assert cloud.admin.get("/os-aggregates/1").status == 404
    assert len(cloud.mirror.snapshot().aggregates.aggregates) == 0


@pytest.mark.parametrize(
    ("given", "status"), [("agg1", 400), ("1.5", 400), ("٣", 400), ("7", 404), ("-1", 404), ("9" * 30, 404)]
)
def test_an_id_is_an_integer(cloud: Cloud, given: str, status: int) -> None:
    path = f"/os-aggregates/{given}"
    answers = [
        cloud.admin.get(path),
        cloud.admin.put(path, {"aggregate": {"name": "x"}}),
        cloud.admin.delete(path),
        remove(cloud.admin, given, "node1"),
        tag(cloud.admin, given, a="b"),
    ]
    assert [answer.status for answer in answers] == [status] * 5


def test_an_unknown_action_is_refused(cloud: Cloud) -> None:
    make(cloud.admin)
    for body in ({"explode": {}}, {}, {"add_host": {"host": "a"}, "remove_host": {"host": "a"}}, None, []):
        answer = cloud.admin.post("/os-aggregates/1/action", body)
        assert answer.status == 400


def test_an_isolation_rule_is_checked_before_it_is_stored(cloud: Cloud) -> None:
    make(cloud.admin)
    rules = {"kilonova:only": "image.trove", "kilonova:only.2": "flavor=db.small and project=p"}
    assert tag(cloud.admin, 1, **rules).body["aggregate"]["metadata"] == rules
    refused = tag(cloud.admin, 1, **{"kilonova:only.2": None, "kilonova:only.3": "flavour=db.small"})
    assert refused.status == 400
    assert "kilonova:only.3: cannot read a condition at 'flavour=db.small'" in refused.body["badRequest"]["message"]
    assert tag(cloud.admin, 1, **{"kilonova:onyl": "image.trove", "kilonova:only2": "image.trove"}).status == 400
    assert cloud.admin.get("/os-aggregates/1").body["aggregate"]["metadata"] == rules
    removed = tag(cloud.admin, 1, **dict.fromkeys([*rules, "kilonova:only2"]))
    assert removed.body["aggregate"]["metadata"] == {}
