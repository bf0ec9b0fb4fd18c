# SPDX-License-Identifier: Apache-2.0
from typing import Any

import pytest

from api.compute_cloud import Cloud
from support.api_client import Answer, Client


def create(client: Client, **group: Any) -> Answer:
    return client.post("/os-server-groups", {"server_group": {"name": "g", **group}})


def test_shapes_by_version(cloud: Cloud) -> None:
    first = create(cloud.member, policies=["affinity"])
    assert first.status == 200
    group = first.body["server_group"]
    uuid = group["id"]
    assert group == {"id": uuid, "name": "g", "policies": ["affinity"], "members": [], "metadata": {}}
    owned = cloud.member.at("2.13").get(f"/os-server-groups/{uuid}").body["server_group"]
    assert owned == {**group, "project_id": "wonder", "user_id": "alice"}
    newest = cloud.member.at("2.64").get(f"/os-server-groups/{uuid}").body["server_group"]
    assert newest == {
        "id": uuid,
        "name": "g",
        "policy": "affinity",
        "rules": {},
        "members": [],
        "project_id": "wonder",
        "user_id": "alice",
    }


def test_soft_policies_from_2_15(cloud: Cloud) -> None:
    assert create(cloud.member.at("2.14"), policies=["soft-affinity"]).status == 400
    assert create(cloud.member.at("2.15"), policies=["soft-affinity"]).status == 200


def test_rules_from_2_64(cloud: Cloud) -> None:
    client = cloud.member.at("2.64")
    limited = create(client, policy="anti-affinity", rules={"max_server_per_host": "3"}).body["server_group"]
    assert limited["rules"] == {"max_server_per_host": 3}
    assert cloud.mirror.group(limited["id"]).max_server_per_host == 3  # type: ignore[union-attr]
    plain = create(client, policy="anti-affinity").body["server_group"]
    assert plain["rules"] == {}
    assert create(client, policy="affinity", rules={}).status == 200
    assert create(client, policy="affinity", rules={"max_server_per_host": 3}).status == 400


@pytest.mark.parametrize(
    ("version", "group"),
    [
        ("2.1", {}),
        ("2.1", {"policies": []}),
        ("2.1", {"policies": ["affinity", "anti-affinity"]}),
        ("2.1", {"policies": ["affinity", "affinity"]}),
        ("2.1", {"policies": ["storage-affinity"]}),
        ("2.1", {"policies": "affinity"}),
        ("2.1", {"policies": ["affinity"], "name": ""}),
        ("2.1", {"policies": ["affinity"], "name": " padded"}),
        ("2.1", {"policies": ["affinity"], "name": "x" * 256}),
        ("2.1", {"policies": ["affinity"], "metadata": {}}),
        ("2.63", {"policy": "affinity"}),
        ("2.64", {"policies": ["affinity"]}),
        ("2.64", {"policy": "storage-affinity"}),
        ("2.64", {"policy": "anti-affinity", "rules": {"max_server_per_host": 0}}),
        ("2.64", {"policy": "anti-affinity", "rules": {"max_server_per_host": "0"}}),
        ("2.64", {"policy": "anti-affinity", "rules": {"max_server_per_host": -1}}),
        ("2.64", {"policy": "anti-affinity", "rules": {"max_server_per_host": 1.5}}),
        ("2.64", {"policy": "anti-affinity", "rules": {"max_server_per_host": "9999999999"}}),
        ("2.64", {"policy": "anti-affinity", "rules": {"colour": 1}}),
    ],
)
def test_what_is_refused(cloud: Cloud, version: str, group: dict[str, Any]) -> None:
    before = cloud.everything()
    answer = create(cloud.member.at(version), **group)
    assert (answer.status, answer.fault[0]) == (400, "badRequest")
    assert cloud.everything() == before


def test_lists_are_of_the_project_unless_an_administrator_asks_for_all(cloud: Cloud) -> None:
    create(cloud.member, policies=["affinity"])
    create(cloud.as_user("bob", "other"), policies=["affinity"])
    assert len(cloud.member.get("/os-server-groups").body["server_groups"]) == 1
    assert len(cloud.member.get("/os-server-groups?all_projects=1").body["server_groups"]) == 1
    assert len(cloud.admin.get("/os-server-groups").body["server_groups"]) == 0
    assert len(cloud.admin.get("/os-server-groups?all_projects=1").body["server_groups"]) == 2


def test_limit_and_offset(cloud: Cloud) -> None:
    for number in range(7):
        create(cloud.member, name=f"g{number}", policies=["affinity"])

    def names(query: str) -> list[str]:
        groups = cloud.member.get(f"/os-server-groups{query}").body["server_groups"]
        return [group["name"] for group in groups]

    assert names("") == names("?limit=0") == names("?limit=1000") == ["g0", "g1", "g2", "g3", "g4"]
    assert names("?limit=2&offset=4") == ["g4", "g5"]
    assert names("?offset=99") == []
    assert cloud.member.get("/os-server-groups?limit=x").status == 400
    assert cloud.member.get("/os-server-groups?offset=-1").status == 400
    assert cloud.member.at("2.74").get("/os-server-groups?colour=red").status == 200
    assert cloud.member.at("2.75").get("/os-server-groups?colour=red").status == 400


def test_members_are_the_servers_that_exist(cloud: Cloud) -> None:
    cloud.add_host("node1")
    uuid = create(cloud.member, policies=["affinity"]).body["server_group"]["id"]
    servers = [cloud.add_server("node1", group_uuid=uuid) for _ in range(3)]
    cloud.remove_server(servers[1])
    shown = cloud.member.get(f"/os-server-groups/{uuid}").body["server_group"]
    assert shown["members"] == [servers[0], servers[2]]
    assert cloud.member.delete(f"/os-server-groups/{uuid}").status == 204
    assert cloud.mirror.group(uuid) is None


def test_groups_of_others(cloud: Cloud) -> None:
    uuid = create(cloud.member, policies=["affinity"]).body["server_group"]["id"]
    stranger, reader = cloud.as_user("bob", "other"), cloud.as_user("carol", "wonder", "reader")
    path, nowhere = f"/os-server-groups/{uuid}", "/os-server-groups/5b674f73-0000-4000-8000-000000000000"
    for method in ("GET", "DELETE"):
        foreign, unknown = stranger.send(method, path), stranger.send(method, nowhere)
        assert (foreign.status, foreign.fault[0]) == (404, "itemNotFound")
        assert foreign.raw.replace(uuid.encode(), nowhere.rpartition("/")[2].encode()) == unknown.raw
    assert [reader.get(path).status, reader.delete(path).status] == [200, 403]
    assert create(reader, policies=["affinity"]).status == 403
    assert cloud.admin.get(path).status == 200
    assert cloud.admin.delete(path).status == 204
    assert [cloud.member.get(path).status, cloud.member.delete(path).status] == [404, 404]


def test_ten_groups_a_project(cloud: Cloud) -> None:
    for _ in range(10):
        assert create(cloud.member, policies=["affinity"]).status == 200
    refused = create(cloud.member, policies=["affinity"])
    assert (refused.status, refused.fault) == (403, ("forbidden", "Quota exceeded, too many server groups."))
    assert create(cloud.as_user("bob", "other"), policies=["affinity"]).status == 200
