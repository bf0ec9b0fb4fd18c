# SPDX-License-Identifier: Apache-2.0
from typing import Any

import pytest

from api.compute_cloud import Cloud, start_cloud
from support.api_client import Answer

DISABLED = "COMPUTE_STATUS_DISABLED"


def listed(cloud: Cloud, version: str = "2.69", query: str = "") -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = cloud.admin.at(version).get(f"/os-services{query}").body["services"]
    return found


def uuid_of(cloud: Cloud, host: str) -> str:
    return str(listed(cloud, query=f"?host={host}&binary=nova-compute")[0]["id"])


def put(cloud: Cloud, host: str, **body: Any) -> Answer:
    return cloud.admin.at("2.69").put(f"/os-services/{uuid_of(cloud, host)}", body)


def legacy(cloud: Cloud, verb: str, version: str = "2.52", **body: Any) -> Answer:
    return cloud.admin.at(version).put(f"/os-services/{verb}", {"host": "node1", "binary": "nova-compute"} | body)


def test_a_service_as_the_first_version_shows_it(cloud: Cloud) -> None:
    cloud.add_host("node1")
    (service,) = listed(cloud, "2.1")
    assert service.pop("updated_at").startswith("20")
    assert service == {
        "id": 1,
        "binary": "nova-compute",
        "host": "node1",
        "zone": "nova",
        "status": "enabled",
        "state": "up",
        "disabled_reason": None,
    }


def test_forced_down_is_shown_from_2_11_and_the_uuid_from_2_53(cloud: Cloud) -> None:
    cloud.add_host("node1")
    assert "forced_down" not in listed(cloud, "2.10")[0]
    assert listed(cloud, "2.11")[0]["forced_down"] is False
    assert listed(cloud, "2.52")[0]["id"] == 1
    assert len(listed(cloud, "2.53")[0]["id"]) == 36


def test_filters_by_host_and_binary(cloud: Cloud) -> None:
    cloud.add_host("node1")
    cloud.add_host("node2")
    cloud.add_service("node1", "nova-scheduler")
    assert [service["host"] for service in listed(cloud, query="?binary=nova-compute")] == ["node1", "node2"]
    assert [service["binary"] for service in listed(cloud, query="?host=node1")] == ["nova-compute", "nova-scheduler"]
    assert [service["zone"] for service in listed(cloud, query="?host=node1")] == ["nova", "internal"]
    assert listed(cloud, query="?host=node9") == []


def test_unknown_parameters_are_refused_from_2_75(cloud: Cloud) -> None:
    assert cloud.admin.at("2.74").get("/os-services?colour=red").status == 200
    refused = cloud.admin.at("2.75").get("/os-services?colour=red")
    assert refused.status == 400
    assert "colour" in refused.fault[1]


def test_a_silent_service_is_down(cloud: Cloud) -> None:
    cloud.add_host("node1")
    cloud.age("node1", 59)
    assert listed(cloud)[0]["state"] == "up"
    cloud.age("node1", 61)
    assert listed(cloud)[0]["state"] == "down"


def test_a_service_of_which_no_process_was_ever_seen_is_down(cloud: Cloud) -> None:
    cloud.add_service("control1", "nova-scheduler")
    (service,) = listed(cloud)
    assert (service["state"], service["updated_at"]) == ("down", None)


def test_the_old_verbs(cloud: Cloud) -> None:
    cloud.add_host("node1")
    name = {"host": "node1", "binary": "nova-compute"}
    assert legacy(cloud, "disable", "2.1").body == {"service": {**name, "status": "disabled"}}
    reasoned = legacy(cloud, "disable-log-reason", disabled_reason="broken fan")
    assert reasoned.body == {"service": {**name, "status": "disabled", "disabled_reason": "broken fan"}}
    assert listed(cloud)[0]["disabled_reason"] == "broken fan"
    assert legacy(cloud, "enable").body == {"service": {**name, "status": "enabled"}}
    assert listed(cloud)[0]["disabled_reason"] is None
    forced = legacy(cloud, "force-down", "2.11", forced_down=True)
    assert forced.body == {"service": {**name, "forced_down": True}}
    assert listed(cloud)[0]["state"] == "down"
    assert legacy(cloud, "force-down", forced_down="false").body["service"]["forced_down"] is False


@pytest.mark.parametrize(
    ("verb", "version", "body", "status"),
    [
        ("explode", "2.52", {}, 404),
        ("force-down", "2.10", {}, 404),
        ("force-down", "2.11", {}, 400),
        ("force-down", "2.11", {"forced_down": "maybe"}, 400),
        ("disable-log-reason", "2.52", {}, 400),
        ("disable-log-reason", "2.52", {"disabled_reason": ""}, 400),
        ("disable-log-reason", "2.52", {"disabled_reason": "x" * 256}, 400),
        ("enable", "2.52", {"host": "node9"}, 404),
        ("enable", "2.52", {"binary": "nova-nothing"}, 404),
        ("enable", "2.52", {"host": 5}, 400),
        ("enable", "2.52", {"extra": 5}, 400),
        ("enable", "2.52", {"host": "control1", "binary": "nova-scheduler"}, 400),
        ("enable", "2.53", {}, 400),
    ],
)
def test_what_the_old_verbs_refuse(cloud: Cloud, verb: str, version: str, body: dict[str, Any], status: int) -> None:
    cloud.add_host("node1")
    cloud.add_service("control1", "nova-scheduler")
    before = cloud.everything()
    assert legacy(cloud, verb, version, **body).status == status
    assert cloud.everything() == before


def test_an_update_answers_with_the_whole_service(cloud: Cloud) -> None:
    cloud.add_host("node1")
    answer = put(cloud, "node1", status="disabled", disabled_reason="x")
    assert answer.status == 200
    assert answer.body == {"service": listed(cloud)[0]}
    assert (answer.body["service"]["status"], answer.body["service"]["disabled_reason"]) == ("disabled", "x")
    assert put(cloud, "node1", forced_down=True).body["service"]["disabled_reason"] == "x"
    enabled = put(cloud, "node1", status="enabled", forced_down=False).body["service"]
    assert (enabled["status"], enabled["disabled_reason"], enabled["state"]) == ("enabled", None, "up")


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"disabled_reason": "x"},
        {"status": "enabled", "disabled_reason": "x"},
        {"status": "on"},
        {"status": "disabled", "disabled_reason": "x" * 256},
        {"forced_down": "maybe"},
        {"colour": "red"},
        [],
        None,
    ],
)
def test_what_an_update_refuses(cloud: Cloud, body: Any) -> None:
    cloud.add_host("node1")
    path, before = f"/os-services/{uuid_of(cloud, 'node1')}", cloud.everything()
    assert cloud.admin.at("2.53").put(path, body).status == 400
    assert cloud.everything() == before


def test_an_update_needs_the_uuid_of_a_compute_service(cloud: Cloud) -> None:
    cloud.add_service("control1", "nova-scheduler")
    client, body = cloud.admin.at("2.53"), {"status": "disabled"}
    assert client.put("/os-services/1", body).status == 400
    assert client.put("/os-services/8a5b6c1c-0000-4000-8000-000000000000", body).status == 404
    refused = client.put(f"/os-services/{listed(cloud)[0]['id']}", body)
    assert refused.status == 400
    assert "nova-compute" in refused.fault[1]


def test_disabling_marks_the_providers_once(cloud: Cloud) -> None:
    nodes = [cloud.add_host("node1", "one", "two").uuid]
    nodes = [each["id"] for each in cloud.admin.at("2.53").get("/os-hypervisors").body["hypervisors"]]
    before = [cloud.provider(node)["generation"] for node in nodes]
    for _ in range(2):
        put(cloud, "node1", status="disabled")
    assert [cloud.provider(node)["traits"] for node in nodes] == [{DISABLED}, {DISABLED}]
    assert [cloud.provider(node)["generation"] for node in nodes] == [generation + 1 for generation in before]
    table = cloud.mirror.snapshot()
    assert table.disabled.all()
    assert table.trait_bits[table.trait_rows[DISABLED]].all()
    legacy(cloud, "enable")
    assert [cloud.provider(node)["traits"] for node in nodes] == [set(), set()]
    assert not cloud.mirror.snapshot().disabled.any()


def test_deleting_takes_everything_of_the_host_along(cloud: Cloud) -> None:
    node = cloud.add_host("node1")
    cloud.add_host("node2")
    cloud.admin.post("/os-aggregates", {"aggregate": {"name": "a"}})
    for host in ("node1", "node2"):
        cloud.admin.post("/os-aggregates/1/action", {"add_host": {"host": host}})
    deleted = cloud.admin.at("2.53").delete(f"/os-services/{uuid_of(cloud, 'node1')}")
    assert (deleted.status, deleted.raw) == (204, b"")
    assert [service["host"] for service in listed(cloud)] == ["node2"]
    assert cloud.admin.get("/os-aggregates/1").body["aggregate"]["hosts"] == ["node2"]
    assert [each["hypervisor_hostname"] for each in cloud.admin.get("/os-hypervisors").body["hypervisors"]] == ["node2"]
    assert node.uuid not in str(cloud.everything()["resource_providers"])
    table = cloud.mirror.snapshot()
    assert table.hosts == ("node2",)
    assert cloud.mirror.providers().uuids == table.uuids


def test_a_host_with_servers_stays(cloud: Cloud) -> None:
    cloud.add_host("node1")
    server = cloud.add_server("node1")
    path, before = f"/os-services/{uuid_of(cloud, 'node1')}", cloud.everything()
    refused = cloud.admin.at("2.53").delete(path)
    assert refused.status == 409
    assert cloud.everything() == before
    cloud.remove_server(server)
    assert cloud.admin.at("2.53").delete(path).status == 204


def test_a_service_that_is_up_may_be_deleted_by_its_number_until_2_52(cloud: Cloud) -> None:
    cloud.add_host("node1")
    cloud.add_service("control1", "nova-scheduler")
    client = cloud.admin.at("2.52")
    assert client.delete(f"/os-services/{uuid_of(cloud, 'node1')}").status == 400
    assert client.delete("/os-services/77").status == 404
    assert client.delete("/os-services/2").status == 204
    assert client.delete("/os-services/1").status == 204
    assert listed(cloud) == []


@pytest.mark.parametrize(("given", "status"), [("1", 400), ("x", 400), ("8a5b6c1c-0000-4000-8000-000000000000", 404)])
def test_from_2_53_a_service_is_deleted_by_uuid(cloud: Cloud, given: str, status: int) -> None:
    assert cloud.admin.at("2.53").delete(f"/os-services/{given}").status == status


@pytest.mark.parametrize("version", ["2.52", "2.53"])
def test_where_it_is_wanted_a_service_that_is_up_is_not_deleted(database_url: str, version: str) -> None:
    cloud = start_cloud(database_url, delete_only_down_services=True)
    cloud.add_host("node1")
    client = cloud.admin.at(version)
    path = f"/os-services/{1 if version == '2.52' else uuid_of(cloud, 'node1')}"
    before = cloud.everything()
    refused = client.delete(path)
    assert refused.fault == (
        "conflictingRequest",
        "Unable to delete a service that is up. Stop the service, or set its forced_down, first.",
    )
    assert cloud.everything() == before
    cloud.age("node1")
    assert client.delete(path).status == 204
    cloud.database.close()
