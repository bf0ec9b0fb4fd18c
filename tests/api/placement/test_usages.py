# SPDX-License-Identifier: Apache-2.0
from uuid import uuid4

from api.placement.placement_service import PROJECT, Placement, body_of


def test_usages_of_a_project_by_user_and_type(placement: Placement) -> None:
    client, uuid = placement.admin, placement.add("h1", VCPU=100, DISK_GB=100)
    for index, (user, kind) in enumerate((("alice", "INSTANCE"), ("alice", "MIGRATION"), ("bob", "INSTANCE"))):
        placement.claim(str(uuid4()), {uuid: {"VCPU": 1 + index}}, user_id=user, consumer_type=kind)
    old = body_of((uuid, {"DISK_GB": 7}))
    assert client.at("1.12").put(f"/allocations/{uuid4()}", old).status == 204
    assert client.at("1.37").get(f"/usages?project_id={PROJECT}").body == {"usages": {"VCPU": 6, "DISK_GB": 7}}
    assert client.at("1.9").get(f"/usages?project_id={PROJECT}&user_id=bob").body == {"usages": {"VCPU": 3}}
    assert client.get(f"/usages?project_id={PROJECT}").body["usages"] == {
        "INSTANCE": {"consumer_count": 2, "VCPU": 4},
        "MIGRATION": {"consumer_count": 1, "VCPU": 2},
        "unknown": {"consumer_count": 1, "DISK_GB": 7},
    }
    assert client.get(f"/usages?project_id={PROJECT}&consumer_type=all").body["usages"] == {
        "all": {"consumer_count": 4, "VCPU": 6, "DISK_GB": 7}
    }
    picked = client.get(f"/usages?project_id={PROJECT}&consumer_type=unknown&user_id=alice").body["usages"]
    assert picked == {"unknown": {"consumer_count": 1, "DISK_GB": 7}}
    assert client.get("/usages?project_id=elsewhere").body == {"usages": {}}
    assert client.get("/usages").status == 400
    assert client.get(f"/usages?project_id={PROJECT}&consumer_type=instance").status == 400
    assert client.at("1.8").get(f"/usages?project_id={PROJECT}").status == 404
