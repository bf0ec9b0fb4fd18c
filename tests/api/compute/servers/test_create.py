# SPDX-License-Identifier: Apache-2.0
"""POST /servers, GET /servers/{id} and DELETE: shapes by microversion, what is refused, what stays private."""

import base64
from typing import Any
from uuid import uuid4

import pytest

from support.control import IMAGE, Control

EVERY = {
    "id", "name", "status", "tenant_id", "user_id", "created", "updated", "metadata", "addresses", "flavor", "image",
    "links", "hostId", "accessIPv4", "accessIPv6", "progress", "config_drive", "key_name", "OS-DCF:diskConfig",
    "OS-EXT-AZ:availability_zone", "OS-EXT-STS:task_state", "OS-EXT-STS:vm_state", "OS-EXT-STS:power_state",
    "OS-SRV-USG:launched_at", "OS-SRV-USG:terminated_at", "os-extended-volumes:volumes_attached",
}  # fmt: skip
ADMIN = {"OS-EXT-SRV-ATTR:host", "OS-EXT-SRV-ATTR:hypervisor_hostname", "OS-EXT-SRV-ATTR:instance_name"}
#: microversion → (what everybody sees from there on, what administrators see besides)
SINCE: list[tuple[str, set[str], set[str]]] = [
    ("2.1", EVERY, ADMIN),
    (
        "2.3",
        set(),
        {
            f"OS-EXT-SRV-ATTR:{name}"
            for name in (
                "hostname", "kernel_id", "ramdisk_id", "launch_index", "reservation_id", "root_device_name",
                "user_data",
            )
        },
    ),
    ("2.9", {"locked"}, set()),
    ("2.16", set(), {"host_status"}),
    ("2.19", {"description"}, set()),
    ("2.26", {"tags"}, set()),
    ("2.63", {"trusted_image_certificates"}, set()),
    ("2.71", {"server_groups"}, set()),
    ("2.73", {"locked_reason"}, set()),
    ("2.90", {"OS-EXT-SRV-ATTR:hostname"}, set()),
    ("2.96", {"pinned_availability_zone"}, set()),
    ("2.100", {"scheduler_hints"}, set()),
]  # fmt: skip


def fields_at(version: str, *, admin: bool) -> set[str]:
    minor = int(version.split(".")[1])
    fields: set[str] = set()
    for since, common, more in SINCE:
        if minor >= int(since.split(".")[1]):
            fields |= common | (more if admin else set())
    return fields


def test_create_answers_with_where_it_is(control: Control) -> None:
    answer = control.ask()
    assert answer.status == 202
    server = answer.body["server"]
    assert set(server) == {"id", "links", "OS-DCF:diskConfig", "security_groups", "adminPass"}
    assert answer.headers["location"] == server["links"][0]["href"]
    assert server["links"][0]["href"].endswith(f"/compute/v2.1/servers/{server['id']}")
    control.settle()
    assert control.member.get(f"/servers/{server['id']}").body["server"]["status"] == "ACTIVE"
    assert control.check() == {server["id"]: "active"}


@pytest.mark.parametrize("version", ["2.1", "2.2", *(since for since, _, _ in SINCE[1:]), "2.104"])
def test_show_and_detail_have_the_fields_of_their_version(control: Control, version: str) -> None:
    uuid = control.boot()["id"]
    for client, admin in ((control.member, False), (control.admin, True)):
        shown = client.at(version).get(f"/servers/{uuid}").body["server"]
        assert set(shown) == fields_at(version, admin=admin)
        (listed,) = (
            client.at(version).get("/servers/detail?all_tenants=1" if admin else "/servers/detail").body["servers"]
        )
        assert set(listed) == fields_at(version, admin=admin) - {"server_groups"}


def test_the_values_of_a_server(control: Control) -> None:
    shown = control.boot(
        name="Web 1",
        metadata={"a": "b"},
        description="mine",
        accessIPv4="10.0.0.1",
        accessIPv6="fe80:0:0::0001",
        config_drive=True,
        tags=["blue", "red", "blue"],
        user_data=base64.b64encode(b"#!/bin/sh").decode(),
    )
    expected = {
        "name": "Web 1",
        "status": "ACTIVE",
        "tenant_id": "wonder",
        "user_id": "alice",
        "metadata": {"a": "b"},
        "description": "mine",
        "accessIPv4": "10.0.0.1",
        "accessIPv6": "fe80::1",
        "config_drive": "True",
        "tags": ["blue", "red"],
        "addresses": {},
        "OS-EXT-STS:vm_state": "active",
        "OS-EXT-STS:task_state": None,
        "OS-EXT-STS:power_state": 1,
        "OS-EXT-AZ:availability_zone": "nova",
        "OS-EXT-SRV-ATTR:hostname": "web-1",
        "OS-EXT-SRV-ATTR:user_data": "IyEvYmluL3No",
        "OS-EXT-SRV-ATTR:instance_name": "instance-00000001",
        "host_status": "UP",
        "locked": False,
        "scheduler_hints": {},
        "pinned_availability_zone": None,
    }
    assert {name: shown[name] for name in expected} == expected
    assert shown["OS-SRV-USG:launched_at"] is not None
    assert shown["image"]["id"] == IMAGE
    assert shown["flavor"]["original_name"] == "flavor1"


def test_a_server_keeps_its_flavor(control: Control) -> None:
    uuid = control.boot()["id"]
    before = control.member.get(f"/servers/{uuid}").body["server"]["flavor"]
    control.admin.delete("/flavors/1")
    control.add_flavor("1", ram=4096)
    assert control.member.get(f"/servers/{uuid}").body["server"]["flavor"] == before
    old = control.member.at("2.46").get(f"/servers/{uuid}").body["server"]["flavor"]
    assert (set(old), old["id"]) == ({"id", "links"}, "1")


def test_many_servers_are_numbered(control: Control) -> None:
    answer = control.ask(name="web", min_count=2, max_count=3, return_reservation_id=True)
    assert set(answer.body) == {"reservation_id"}
    control.settle()
    found = control.member.get(f"/servers/detail?reservation_id={answer.body['reservation_id']}").body["servers"]
    assert sorted(server["name"] for server in found) == ["web-1", "web-2", "web-3"]
    assert {server["status"] for server in found} == {"ACTIVE"}
    assert sorted(server["OS-EXT-SRV-ATTR:hostname"] for server in found) == ["web-1", "web-2", "web-3"]


def test_hints_and_groups_are_kept_and_obeyed(control: Control) -> None:
    group = control.member.post("/os-server-groups", {"server_group": {"name": "g", "policy": "anti-affinity"}})
    uuid = group.body["server_group"]["id"]
    first = control.boot(hints={"group": uuid, "color": "blue", "_nova_check_type": "rebuild"})
    second = control.boot(hints={"group": uuid})
    assert {first["OS-EXT-SRV-ATTR:host"], second["OS-EXT-SRV-ATTR:host"]} == {"node1", "node2"}
    assert first["scheduler_hints"] == {"group": uuid, "color": "blue"}
    assert first["server_groups"] == [uuid]
    third = control.boot(hints={"group": uuid})
    assert third["status"] == "ERROR"
    assert "ServerGroupAntiAffinityFilter: 2 of 2 hosts" in third["fault"]["message"]
    control.check()


@pytest.mark.parametrize("hint", ["same_host", "different_host"])
def test_hints_that_no_enabled_filter_reads_are_kept_all_the_same(control: Control, hint: str) -> None:
    first = control.boot()
    assert control.boot(hints={hint: [first["id"]]})["scheduler_hints"] == {hint: first["id"]}


def test_zones(control: Control) -> None:
    aggregate = control.admin.post("/os-aggregates", {"aggregate": {"name": "a", "availability_zone": "east"}})
    number = aggregate.body["aggregate"]["id"]
    control.admin.post(f"/os-aggregates/{number}/action", {"add_host": {"host": "node2"}})
    east = control.boot(availability_zone="east")
    assert (east["OS-EXT-SRV-ATTR:host"], east["OS-EXT-AZ:availability_zone"]) == ("node2", "east")
    assert east["pinned_availability_zone"] == "east"
    assert control.boot(availability_zone="nova")["OS-EXT-SRV-ATTR:host"] == "node1"
    refused = control.ask(availability_zone="west")
    assert (refused.status, refused.fault[1]) == (400, "The requested availability zone is not available")


@pytest.mark.parametrize("zone", ["nova:node2", "nova:node2:node2", "nova::node2", ":node2", "nova:NODE2"])
def test_an_administrator_may_force_a_host(control: Control, zone: str) -> None:
    assert control.boot(control.admin, availability_zone=zone)["OS-EXT-SRV-ATTR:host"] == "node2"
    refused = control.ask(availability_zone=zone)
    assert refused.status == 403


def test_a_forced_host_is_outside_the_default_zone_once_an_aggregate_has_its_name(control: Control) -> None:
    """As in Nova the request is accepted and the server fails; its fault says why and what to do."""
    new = {"name": "a", "availability_zone": "nova"}
    number = control.admin.post("/os-aggregates", {"aggregate": new}).body["aggregate"]["id"]
    control.admin.post(f"/os-aggregates/{number}/action", {"add_host": {"host": "node1"}})
    refused = control.boot(control.admin, availability_zone="nova:node2")
    assert refused["status"] == "ERROR"
    assert refused["fault"]["code"] == 500
    assert (
        "The requested host is in no aggregate with availability zone nova, as requests" in refused["fault"]["message"]
    )
    assert control.boot(control.admin, availability_zone=":node2")["OS-EXT-SRV-ATTR:host"] == "node2"
    assert control.boot(control.admin, availability_zone="nova:node1")["OS-EXT-SRV-ATTR:host"] == "node1"


def test_an_administrator_may_ask_for_a_host(control: Control) -> None:
    assert control.boot(control.admin, host="node2")["OS-EXT-SRV-ATTR:host"] == "node2"
    assert control.boot(control.admin, hypervisor_hostname="node1")["OS-EXT-SRV-ATTR:host"] == "node1"
    assert control.ask(host="node2").status == 403
    service = control.admin.get("/os-services?binary=nova-compute&host=node2").body["services"][0]["id"]
    control.admin.put(f"/os-services/{service}", {"forced_down": True})
    assert control.boot(control.admin, host="node2")["status"] == "ERROR", "a requested host passes through the filters"
    forced = control.boot(control.admin, availability_zone="nova:node2")
    assert forced["status"] == "ACTIVE", "a forced one does not"


def test_a_key_pair_by_name(control: Control) -> None:
    public = control.member.at("2.1").post("/os-keypairs", {"keypair": {"name": "mine"}})
    assert public.status == 200
    assert control.boot(key_name="mine")["key_name"] == "mine"
    assert control.ask(control.admin, key_name="mine").status == 400


def test_delete(control: Control) -> None:
    uuid = control.boot()["id"]
    assert control.member.delete(f"/servers/{uuid}").status == 204
    control.settle()
    assert control.member.get(f"/servers/{uuid}").status == 404
    assert control.member.delete(f"/servers/{uuid}").status == 404
    assert control.check() == {}


def test_the_fault_of_a_server_names_rules_to_everybody_and_hosts_to_nobody(control: Control) -> None:
    control.add_flavor("9", vcpus=64)
    uuid = control.ask(flavorRef="9").body["server"]["id"]
    control.settle()
    seen = control.member.get(f"/servers/{uuid}").body["server"]
    assert seen["status"] == "ERROR"
    assert set(seen["fault"]) == {"code", "message", "created"}
    assert seen["fault"]["message"].startswith("No valid host was found. ")
    assert "2 of 2 hosts" in seen["fault"]["message"]
    assert "node" not in str(seen)
    assert "Hosts tried" in control.admin.get(f"/servers/{uuid}").body["server"]["fault"]["details"]
    assert control.member.delete(f"/servers/{uuid}").status == 204
    control.settle()
    assert control.check() == {}


def test_no_tenant_learns_a_host_name(control: Control) -> None:
    uuid = control.boot()["id"]
    for path in (f"/servers/{uuid}", "/servers/detail", "/servers"):
        assert "node1" not in control.member.get(path).raw.decode()
        assert "node2" not in control.member.get(path).raw.decode()


def test_a_foreign_server_is_not_there(control: Control) -> None:
    uuid = control.boot()["id"]
    before = control.everything()
    for answer in (
        control.stranger.get(f"/servers/{uuid}"),
        control.stranger.delete(f"/servers/{uuid}"),
        control.stranger.post(f"/servers/{uuid}/action", {"os-stop": None}),
    ):
        assert answer.status == 404
        assert answer.fault == ("itemNotFound", f"Instance {uuid} could not be found.")
    assert control.stranger.get("/servers").body == {"servers": []}
    assert control.stranger.get(f"/servers?marker={uuid}").status == 400, "not even as a marker"
    reader = control.process.application
    only_reads = type(control.member)(reader, "bob:wonder", "2.100", {"X-Roles": "reader"})
    assert only_reads.get(f"/servers/{uuid}").status == 200
    assert only_reads.delete(f"/servers/{uuid}").status == 403
    assert control.ask(only_reads).status == 403
    assert control.everything() == before


def bad(**changed: Any) -> dict[str, Any]:
    return changed


BAD_FIELDS = [
    ("name", bad(name="x" * 300)),
    ("name", bad(name="")),
    ("name", bad(name=7)),
    ("null character", bad(name="a\u0000b")),
    ("name", bad(name="   ")),
    ("flavorRef", bad(flavorRef="nothing")),
    ("flavorRef", bad(flavorRef=[1])),
    ("imageRef", bad(imageRef="not-a-uuid")),
    ("imageRef", bad(imageRef=str(uuid4()))),
    ("imageRef", bad(imageRef="")),
    ("min_count", bad(min_count=0)),
    ("min_count", bad(min_count=-1)),
    ("min_count", bad(min_count="many")),
    ("min_count", bad(min_count=3, max_count=2)),
    ("metadata", bad(metadata={"a": 1})),
    ("metadata", bad(metadata={"x" * 256: "a"})),
    ("metadata", bad(metadata=[])),
    ("metadata", bad(metadata={"a": "x" * 256})),
    ("availability_zone", bad(availability_zone="a:b:c:d")),
    ("availability_zone", bad(availability_zone="")),
    ("host", bad(host="nowhere")),
    ("hypervisor_hostname", bad(hypervisor_hostname="nowhere")),
    ("availability_zone", bad(availability_zone="nova:nowhere")),
    ("availability_zone", bad(availability_zone="nova:node1", host="node1")),
    ("key_name", bad(key_name="absent-key")),
    ("user_data", bad(user_data="not base64 ***")),
    ("user_data", bad(user_data="é")),
    ("user_data", bad(user_data="A" * 65536)),
    ("networks", bad(networks=[{"uuid": str(uuid4())}])),
    ("networks", bad(networks="manual")),
    ("networks", bad(networks=None)),
    ("tags", bad(tags=["x" * 61])),
    ("tags", bad(tags=["a,b"])),
    ("tags", bad(tags=["a"] * 51)),
    ("tags", bad(tags="blue")),
    ("hostname", bad(hostname="we b")),
    ("hostname", bad(hostname="web", min_count=2)),
    ("description", bad(description="x" * 256)),
    ("accessIPv4", bad(accessIPv4="300.1.1.1")),
    ("accessIPv6", bad(accessIPv6="nothing")),
    ("config_drive", bad(config_drive="perhaps")),
    ("OS-DCF:diskConfig", bad(**{"OS-DCF:diskConfig": "SOMETIMES"})),
    ("block_device_mapping_v2", bad(block_device_mapping_v2=[{"source_type": "volume", "uuid": str(uuid4())}])),
    ("security_groups", bad(security_groups=[{"name": "mine"}])),
    ("personality", bad(personality=[])),
    ("colour", bad(colour="blue")),
]


@pytest.mark.parametrize(("field", "changed"), BAD_FIELDS)
def test_bad_fields_are_named_and_change_nothing(control: Control, field: str, changed: dict[str, Any]) -> None:
    before = control.everything()
    answer = control.ask(control.admin, **changed)
    assert answer.status == 400, answer.body
    name, message = answer.fault
    assert name == "badRequest"
    assert field in message
    assert control.everything() == before


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"{", 400),
        (b"[]", 400),
        (b"null", 400),
        (b"", 400),
        (b'{"server": []}', 400),
        (b'{"server": {}}', 400),
        (b'{"server": {"name": "a"}}', 400),
        (b'{"server": {"name": "a", "flavorRef": "1", "networks": "auto"}, "more": 1}', 400),
        (b'{"server": {"name": "\\ud800"}}', 400),
    ],
)
def test_bodies_that_are_none(control: Control, body: bytes, status: int) -> None:
    before = control.everything()
    assert control.admin.send("POST", "/servers", body, Content_Type="application/json").status == status
    assert control.everything() == before


@pytest.mark.parametrize(
    "hints", [{"group": "x"}, {"group": str(uuid4())}, {"same_host": "x"}, {"cidr": "24"}, {"query": 3}, []]
)
def test_bad_hints(control: Control, hints: Any) -> None:
    before = control.everything()
    answer = control.ask(hints=hints)
    assert answer.status == 400
    assert "os:scheduler_hints" in answer.fault[1]
    assert control.everything() == before


def test_a_group_of_another_project_is_not_there(control: Control) -> None:
    body = {"server_group": {"name": "g", "policy": "affinity"}}
    uuid = control.stranger.post("/os-server-groups", body).body["server_group"]["id"]
    assert control.ask(hints={"group": uuid}).status == 400


@pytest.mark.parametrize("server_id", ["nothing", "%00", "ü", str(uuid4()), "x" * 500])
def test_unknown_servers(control: Control, server_id: str) -> None:
    assert control.member.get(f"/servers/{server_id}").status == 404
    assert control.member.delete(f"/servers/{server_id}").status == 404


@pytest.mark.parametrize(("version", "status"), [("2.105", 406), ("3.0", 406), ("2.x", 400), ("latest", 202)])
def test_versions(control: Control, version: str, status: int) -> None:
    assert control.ask(control.member.at(version)).status == status


def test_before_2_37_networks_may_be_left_out(control: Control) -> None:
    assert control.ask(control.member.at("2.36"), networks=None).status == 202
    assert control.ask(control.member.at("2.36"), networks="auto").status == 400
    assert control.ask(control.member.at("2.1"), networks=None, description="early").status == 400
    control.settle()


def test_a_disabled_or_private_flavor(control: Control) -> None:
    control.add_flavor("private", **{"os-flavor-access:is_public": False})
    assert control.ask(flavorRef="private").status == 400
    control.admin.post("/flavors/private/action", {"addTenantAccess": {"tenant": "wonder"}})
    assert control.ask(flavorRef="private").status == 202
    control.settle()


def test_a_flavor_without_disk_is_for_administrators(control: Control) -> None:
    control.add_flavor("0", disk=0)
    assert control.ask(flavorRef="0").status == 403
    assert control.boot(control.admin, flavorRef="0")["status"] == "ACTIVE"


def test_the_address_of_a_flavor_or_image_ends_in_its_id(control: Control) -> None:
    assert control.boot(flavorRef="http://cloud/flavors/1")["status"] == "ACTIVE"
