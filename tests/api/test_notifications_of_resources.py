# SPDX-License-Identifier: Apache-2.0
"""What other services are told of aggregates, flavors, key pairs, server groups and services."""

import os

from kilonova.notifications.message import Format
from support.api_client import Client
from support.control import IMAGE
from support.notified_cloud import World, names, pair
from support.recorded_notifications import data


def test_aggregates(notified: World) -> None:
    admin = notified.control.admin
    notified.mark()
    number = admin.post("/os-aggregates", {"aggregate": {"name": "rack"}}).body["aggregate"]["id"]
    path = f"/os-aggregates/{number}"
    for action in (
        {"add_host": {"host": "node4"}},
        {"set_metadata": {"metadata": {"ssd": "true", "gone": None}}},
        {"remove_host": {"host": "node4"}},
    ):
        assert admin.post(f"{path}/action", action).status == 200
    assert admin.put(path, {"aggregate": {"name": "row"}}).status == 200
    assert admin.delete(path).status == 200
    told = notified.new()
    actions = ("create", "add_host", "update_metadata", "remove_host", "update_prop", "delete")
    assert names(notified) == [event for action in actions for event in pair(f"aggregate.{action}")]
    assert [data(each)["id"] for each in told[:2]] == [None, number]
    assert [data(each)["hosts"] for each in told[:8]] == [None, [], [], ["node4"], ["node4"], ["node4"], ["node4"], []]
    assert {each.publisher for each in told} == {f"nova-api:{os.uname().nodename}"}
    older = notified.new(Format.UNVERSIONED)
    actions = ("create", "addhost", "updatemetadata", "removehost", "updateprop", "delete")
    assert names(notified, Format.UNVERSIONED) == [event for each in actions for event in pair(f"aggregate.{each}")]
    assert [each.payload for each in older[:4]] == [
        {"name": "rack"},
        {"aggregate_id": number, "name": "rack"},
        {"aggregate_id": number, "host_name": "node4"},
        {"aggregate_id": number, "host_name": "node4", "name": "rack"},
    ]
    assert older[4].payload == {"aggregate_id": number, "meta_data": {"ssd": "true", "gone": None}}
    assert [each.publisher for each in older[:2]] == ["aggregate.rack", f"aggregate.{number}"]
    assert notified.control.admin.post("/os-aggregates", {"aggregate": {"name": ""}}).status == 400
    assert len(notified.new()) == len(told)


def test_images_that_are_fetched_before_anybody_asks(notified: World) -> None:
    admin = notified.control.admin
    number = admin.post("/os-aggregates", {"aggregate": {"name": "warm"}}).body["aggregate"]["id"]
    for host in ("node1", "node2", "node4"):
        assert admin.post(f"/os-aggregates/{number}/action", {"add_host": {"host": host}}).status == 200
    (service,) = admin.get("/os-services?host=node4&binary=nova-compute").body["services"]
    assert admin.put(f"/os-services/{service['id']}", {"forced_down": True}).status == 200
    notified.mark()
    lost = "0c4c4a3a-42d5-4a6a-8a6b-16f1d7a0b7a4"
    notified.glance.images[lost] = b"lost"
    notified.glance.lost.add(lost)
    body = {"cache": [{"id": IMAGE}, {"id": lost}]}
    assert admin.post(f"/os-aggregates/{number}/images", body).status == 202
    told = notified.new()
    events = [f"aggregate.cache_images.{phase}" for phase in ("start", "progress", "progress", "progress", "end")]
    assert names(notified) == events
    assert names(notified, Format.UNVERSIONED) == []
    steps = {data(each)["host"]: data(each) for each in told[1:4]}
    assert [(data(each)["index"], data(each)["total"]) for each in told[1:4]] == [(1, 3), (2, 3), (3, 3)]
    assert (steps["node1"]["images_cached"], steps["node1"]["images_failed"]) == ([IMAGE], [lost])
    assert (steps["node4"]["images_cached"], steps["node4"]["images_failed"]) == ([], [IMAGE, lost])
    assert [each.publisher.partition(":")[0] for each in told] == ["nova-api", *["nova-conductor"] * 3, "nova-api"]
    unknown = {"cache": [{"id": "3f0d1c5e-8a52-4a8a-9c3e-6f3b7f3e2b11"}]}
    assert admin.post(f"/os-aggregates/{number}/images", unknown).status == 400
    assert len(notified.new()) == len(told)
    assert data(told[4])["hosts"] == ["node1", "node2", "node4"]
    assert admin.put(f"/os-services/{service['id']}", {"forced_down": False}).status == 200


def test_flavors(notified: World) -> None:
    admin = notified.control.admin
    notified.mark()
    made = {"name": "big", "id": "77", "ram": 1, "vcpus": 1, "disk": 1, "os-flavor-access:is_public": False}
    assert admin.post("/flavors", {"flavor": made}).status == 200
    assert admin.post("/flavors/77/os-extra_specs", {"extra_specs": {"hw:cpu_policy": "shared"}}).status == 200
    assert admin.post("/flavors/77/action", {"addTenantAccess": {"tenant": "wonder"}}).status == 200
    assert admin.put("/flavors/77", {"flavor": {"description": "well"}}).status == 200
    assert admin.delete("/flavors/77").status == 202
    told = notified.new()
    assert names(notified) == ["flavor.create", *["flavor.update"] * 3, "flavor.delete"]
    assert names(notified, Format.UNVERSIONED) == []
    assert [data(each)["projects"] for each in told] == [[], [], ["wonder"], ["wonder"], ["wonder"]]
    assert (data(told[3])["description"], data(told[1])["extra_specs"]) == ("well", {"hw:cpu_policy": "shared"})


def test_key_pairs(notified: World) -> None:
    admin = notified.control.admin
    notified.mark()
    older_client = Client(notified.control.process.application, version="2.91")
    made = older_client.post("/os-keypairs", {"keypair": {"name": "mine", "type": "ssh"}})
    assert made.status == 201, made.body
    key = made.body["keypair"]["public_key"]
    assert admin.post("/os-keypairs", {"keypair": {"name": "known", "type": "ssh", "public_key": key}}).status == 201
    assert admin.delete("/os-keypairs/mine").status == 204
    assert names(notified) == [event for each in ("create", "import", "delete") for event in pair(f"keypair.{each}")]
    assert names(notified, Format.UNVERSIONED) == names(notified)
    told = data(notified.new()[1])
    assert told == {
        "user_id": "admin", "name": "mine", "fingerprint": made.body["keypair"]["fingerprint"], "public_key": key,
        "type": "ssh",
    }  # fmt: skip
    older = notified.new(Format.UNVERSIONED)[0]
    assert older.payload == {"tenant_id": "admin", "user_id": "admin", "key_name": "mine"}
    notified.mark()
    server = notified.control.boot(admin, key_name="known")
    (copy,) = data(notified.new()[0])["keypairs"]
    assert copy["nova_object.data"]["public_key"] == key
    admin.delete(f"/servers/{server['id']}")


def test_server_groups(notified: World) -> None:
    admin = notified.control.admin
    notified.mark()
    asked = {"name": "apart", "policy": "anti-affinity", "rules": {"max_server_per_host": 2}}
    group = admin.post("/os-server-groups", {"server_group": asked}).body["server_group"]["id"]
    server = notified.control.boot(admin, hints={"group": group})
    assert admin.delete(f"/os-server-groups/{group}").status == 204
    told = [each for each in notified.new() if each.event_type.startswith("server_group")]
    assert [each.event_type.partition(".")[2] for each in told] == ["create", "add_member", "delete"]
    assert [data(each)["members"] for each in told] == [[], [server["id"]], [server["id"]]]
    assert (data(told[0])["policy"], data(told[0])["rules"]) == ("anti-affinity", {"max_server_per_host": "2"})
    older = [each for each in notified.new(Format.UNVERSIONED) if each.event_type.startswith("servergroup")]
    assert [each.event_type for each in older] == ["servergroup.create", "servergroup.addmember", "servergroup.delete"]
    assert older[1].payload == {"server_group_id": group, "instance_uuids": [server["id"]]}
    admin.delete(f"/servers/{server['id']}")


def test_services(notified: World) -> None:
    new = {
        data(each)["host"]: each for each in notified.sink.of(Format.VERSIONED) if each.event_type == "service.create"
    }
    assert {"node1", "node4", os.uname().nodename} <= new.keys()
    assert new["node1"].publisher == "nova-compute:node1"
    (service,) = notified.control.admin.get("/os-services?host=node4&binary=nova-compute").body["services"]
    notified.mark()
    for status in ("disabled", "enabled"):
        reason = {"disabled_reason": "hot"} if status == "disabled" else {}
        assert notified.control.admin.put(f"/os-services/{service['id']}", {"status": status, **reason}).status == 200
    told = notified.new()
    assert [(each.event_type, data(each)["disabled"]) for each in told] == [
        ("service.update", True),
        ("service.update", False),
    ]
    assert (data(told[0])["disabled_reason"], data(told[0])["topic"]) == ("hot", "compute")
