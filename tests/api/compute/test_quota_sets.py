# SPDX-License-Identifier: Apache-2.0
"""Quota sets, quota classes and limits as each microversion shows them, and who may see and change what."""

from typing import Any

import pytest

from api.compute_cloud import Cloud
from support.api_client import Client

DEFAULTS = {
    "instances": 10, "cores": 20, "ram": 51200, "metadata_items": 128, "key_pairs": 100, "server_groups": 10,
    "server_group_members": 10,
}  # fmt: skip
INJECTED = {"injected_files": 5, "injected_file_content_bytes": 10240, "injected_file_path_bytes": 255}
NETWORKS = {"fixed_ips": -1, "floating_ips": -1, "security_group_rules": -1, "security_groups": -1}
GROUPS = {"server_groups": 10, "server_group_members": 10}
QUOTA = "/os-quota-sets/wonder"


@pytest.mark.parametrize(
    ("version", "shown"),
    [
        ("2.1", DEFAULTS | INJECTED | NETWORKS),
        ("2.35", DEFAULTS | INJECTED | NETWORKS),
        ("2.36", DEFAULTS | INJECTED),
        ("2.56", DEFAULTS | INJECTED),
        ("2.57", DEFAULTS),
        ("2.104", DEFAULTS),
    ],
)
def test_a_quota_set_by_microversion(cloud: Cloud, version: str, shown: dict[str, int]) -> None:
    admin = cloud.admin.at(version)
    assert admin.get(QUOTA).body == {"quota_set": {"id": "wonder", **shown}}
    assert admin.get(f"{QUOTA}/defaults").body == {"quota_set": {"id": "wonder", **shown}}
    details = {name: {"in_use": 0, "limit": limit, "reserved": 0} for name, limit in shown.items()}
    assert admin.get(f"{QUOTA}/detail").body == {"quota_set": {"id": "wonder", **details}}
    changed = admin.put(QUOTA, {"quota_set": {"cores": 7, "ram": "-1"}})
    assert changed.body == {"quota_set": {**shown, "cores": 7, "ram": -1}}
    assert admin.get(QUOTA).body == {"quota_set": {"id": "wonder", **shown, "cores": 7, "ram": -1}}
    assert admin.get(f"{QUOTA}/defaults").body == {"quota_set": {"id": "wonder", **shown}}
    removed = admin.delete(QUOTA)
    assert (removed.status, removed.body) == (202, None)
    assert admin.get(QUOTA).body == {"quota_set": {"id": "wonder", **shown}}


def test_limits_of_server_groups_are_taken_before_a_class_shows_them(cloud: Cloud) -> None:
    old = cloud.admin.at("2.49")
    changed = old.put("/os-quota-class-sets/default", {"quota_class_set": {"server_groups": 3}})
    assert changed.status == 200
    assert "server_groups" not in changed.body["quota_class_set"]
    assert cloud.admin.at("2.50").get("/os-quota-class-sets/default").body["quota_class_set"]["server_groups"] == 3


@pytest.mark.parametrize(
    ("version", "shown"),
    [
        ("2.1", {k: v for k, v in DEFAULTS.items() if k not in GROUPS} | INJECTED | NETWORKS),
        ("2.49", {k: v for k, v in DEFAULTS.items() if k not in GROUPS} | INJECTED | NETWORKS),
        ("2.50", DEFAULTS | INJECTED),
        ("2.57", DEFAULTS),
    ],
)
def test_a_class_by_microversion(cloud: Cloud, version: str, shown: dict[str, int]) -> None:
    admin = cloud.admin.at(version)
    assert admin.get("/os-quota-class-sets/default").body == {"quota_class_set": {"id": "default", **shown}}
    changed = admin.put("/os-quota-class-sets/default", {"quota_class_set": {"instances": 3}})
    assert changed.body == {"quota_class_set": {**shown, "instances": 3}}
    assert admin.get("/os-quota-class-sets/default").body["quota_class_set"]["instances"] == 3
    assert admin.get(f"{QUOTA}/defaults").body["quota_set"]["instances"] == 3
    assert admin.get("/os-quota-class-sets/gold").body["quota_class_set"]["instances"] == 10


ABSOLUTE = {
    "maxTotalInstances": 10, "maxTotalCores": 20, "maxTotalRAMSize": 51200, "maxTotalKeypairs": 100,
    "maxServerMeta": 128, "maxServerGroups": 10, "maxServerGroupMembers": 10, "totalInstancesUsed": 0,
    "totalCoresUsed": 0, "totalRAMUsed": 0, "totalServerGroupsUsed": 0,
}  # fmt: skip
FILES = {"maxPersonality": 5, "maxPersonalitySize": 10240}
IMAGES = {"maxImageMeta": 128}
OLD = {
    "maxSecurityGroups": -1, "maxSecurityGroupRules": -1, "maxTotalFloatingIps": -1, "totalSecurityGroupsUsed": 0,
    "totalFloatingIpsUsed": 0,
}  # fmt: skip


@pytest.mark.parametrize(
    ("version", "shown"),
    [
        ("2.1", ABSOLUTE | FILES | IMAGES | OLD),
        ("2.36", ABSOLUTE | FILES | IMAGES),
        ("2.39", ABSOLUTE | FILES),
        ("2.57", ABSOLUTE),
    ],
)
def test_limits_by_microversion(cloud: Cloud, version: str, shown: dict[str, int]) -> None:
    assert cloud.member.at(version).get("/limits").body == {"limits": {"rate": [], "absolute": shown}}


def test_limits_of_another_project_are_for_administrators(cloud: Cloud) -> None:
    cloud.admin.put("/os-quota-sets/elsewhere", {"quota_set": {"instances": 4}})
    assert cloud.admin.get("/limits?tenant_id=elsewhere").body["limits"]["absolute"]["maxTotalInstances"] == 4
    assert cloud.member.get("/limits?tenant_id=elsewhere").status == 403
    assert cloud.member.get("/limits?tenant_id=wonder&reserved=1").status == 200


@pytest.mark.parametrize("version", ["2.1", "2.75", "2.100"])
def test_limits_of_a_user(cloud: Cloud, version: str) -> None:
    cloud.add_server(None, user_id="alice")
    cloud.add_server(None, user_id="bob")
    cloud.admin.put(QUOTA, {"quota_set": {"instances": 8}})
    cloud.admin.put(f"{QUOTA}?user_id=alice", {"quota_set": {"instances": 5}})
    bob = cloud.as_user("bob", "wonder").at(version)

    def shown(client: Client, query: str) -> tuple[int, int]:
        absolute = client.get(f"/limits{query}").body["limits"]["absolute"]
        return absolute["maxTotalInstances"], absolute["totalInstancesUsed"]

    assert shown(cloud.member.at(version), "?user_id=alice") == (5, 1)
    assert shown(bob, "?user_id=bob&reserved=1") == (8, 1)
    assert shown(cloud.admin.at(version), "?tenant_id=wonder&user_id=alice") == (5, 1)
    assert bob.get("/limits?user_id=alice").status == 403
    assert cloud.member.get("/limits?tenant_id=elsewhere&user_id=alice").status == 403
    assert cloud.admin.at(version).get("/limits?user_id=").status == 400


def test_users_of_a_project(cloud: Cloud) -> None:
    admin = cloud.admin.at("2.100")
    assert admin.put(QUOTA, {"quota_set": {"instances": 8}}).status == 200
    mine = admin.put(f"{QUOTA}?user_id=alice", {"quota_set": {"instances": 5}})
    assert mine.body["quota_set"]["instances"] == 5
    assert admin.get(f"{QUOTA}?user_id=alice").body["quota_set"]["instances"] == 5
    assert admin.get(f"{QUOTA}/detail?user_id=alice").body["quota_set"]["instances"]["limit"] == 5
    assert admin.get(f"{QUOTA}?user_id=bob").body["quota_set"]["instances"] == 8
    for user, limit in (("bob", 4), ("bob", -1)):
        refused = admin.put(f"{QUOTA}?user_id={user}", {"quota_set": {"instances": limit}})
        assert refused.status == 400, "alice has five of the eight"
    assert admin.put(f"{QUOTA}?user_id=bob", {"quota_set": {"instances": 3}}).status == 200
    assert admin.put(f"{QUOTA}?user_id=bob", {"quota_set": {"instances": 9, "force": True}}).status == 200
    assert admin.put(QUOTA, {"quota_set": {"instances": 7}}).status == 400, "users were promised more"
    assert admin.delete(QUOTA).status == 202
    assert admin.get(f"{QUOTA}?user_id=alice").body["quota_set"]["instances"] == 10


@pytest.mark.parametrize(
    ("version", "asked", "field"),
    [
        ("2.100", {"instances": -2}, "instances"),
        ("2.100", {"instances": "-2"}, "instances"),
        ("2.100", {"ram": 2**31}, "ram"),
        ("2.100", {"ram": str(2**31)}, "ram"),
        ("2.100", {"ram": "9" * 40}, "ram"),
        ("2.100", {"ram": "99999999999"}, "ram"),
        ("2.100", {"cores": "many"}, "cores"),
        ("2.100", {"cores": 1.5}, "cores"),
        ("2.100", {"cores": None}, "cores"),
        ("2.100", {"force": "perhaps"}, "force"),
        ("2.100", {"bogus": 1}, "bogus"),
        ("2.36", {"floating_ips": 1}, "floating_ips"),
        ("2.57", {"injected_files": 1}, "injected_files"),
    ],
)
def test_bad_input_names_the_field_and_changes_nothing(cloud: Cloud, version: str, asked: Any, field: str) -> None:
    before = cloud.everything()
    answer = cloud.admin.at(version).put(QUOTA, {"quota_set": {"instances": 3, **asked}})
    assert answer.status == 400
    assert field in answer.body["badRequest"]["message"]
    assert cloud.everything() == before


@pytest.mark.parametrize("bad", ["-2", str(2**31), 2**31])
def test_limits_of_classes_fit_their_table(cloud: Cloud, bad: Any) -> None:
    answer = cloud.admin.put("/os-quota-class-sets/default", {"quota_class_set": {"cores": bad}})
    assert (answer.status, "cores" in answer.fault[1]) == (400, True)


@pytest.mark.parametrize("bad", ["x" * 256, "a%0Ab", "a%E2%80%A8b"])
def test_ids_that_no_table_holds(cloud: Cloud, bad: str) -> None:
    admin = cloud.admin.at("2.100")
    assert admin.put(f"/os-quota-sets/{bad}", {"quota_set": {"cores": 1}}).status == 400
    assert admin.put(f"{QUOTA}?user_id={bad}", {"quota_set": {"cores": 1}}).status == 400
    assert admin.put(f"/os-quota-class-sets/{bad}", {"quota_class_set": {"cores": 1}}).status == 400
    assert admin.get(f"/limits?tenant_id={bad}").status == 400
    assert admin.get(f"/limits?user_id={bad}").status == 400


def test_who_may_what(cloud: Cloud) -> None:
    reader, stranger = cloud.as_user("rita", "wonder", "reader"), cloud.as_user("mallory", "elsewhere")
    body = {"quota_set": {"cores": 1}}
    assert [reader.get(QUOTA).status, reader.get(f"{QUOTA}/detail").status] == [200, 200]
    assert [stranger.get(QUOTA).status, stranger.get(f"{QUOTA}/detail").status] == [403, 403]
    assert stranger.get(f"{QUOTA}/defaults").status == 200
    for client in (cloud.member, reader, stranger):
        assert client.put(QUOTA, body).status == 403
        assert client.delete(QUOTA).status == 403
        assert client.get("/os-quota-class-sets/default").status == 403
        assert client.put("/os-quota-class-sets/default", {"quota_class_set": {"cores": 1}}).status == 403
        assert client.get("/limits").status == 200
