# SPDX-License-Identifier: Apache-2.0
from api.compute_cloud import Cloud


def names(cloud: Cloud) -> dict[str, bool]:
    zones = cloud.member.get("/os-availability-zone").body["availabilityZoneInfo"]
    assert {zone["hosts"] for zone in zones} <= {None}
    return {zone["zoneName"]: zone["zoneState"]["available"] for zone in zones}


def put_into_zone(cloud: Cloud, zone: str, *hosts: str) -> None:
    created = cloud.admin.post("/os-aggregates", {"aggregate": {"name": f"of {zone}", "availability_zone": zone}})
    aggregate_id = created.body["aggregate"]["id"]
    for host in hosts:
        cloud.admin.post(f"/os-aggregates/{aggregate_id}/action", {"add_host": {"host": host}})


def test_hosts_without_zone_are_in_the_default_one_and_the_internal_one_is_hidden(cloud: Cloud) -> None:
    assert names(cloud) == {}
    cloud.add_service("control1", "nova-conductor")
    cloud.add_host("node1")
    assert names(cloud) == {"nova": True}


def test_a_zone_is_available_while_one_service_is_enabled_up_or_down(cloud: Cloud) -> None:
    for host in ("node1", "node2", "node3"):
        cloud.add_host(host, up=False)
    put_into_zone(cloud, "az1", "node1", "node2")
    assert names(cloud) == {"az1": True, "nova": True}
    for host in ("node1", "node3"):
        cloud.admin.put("/os-services/disable", {"host": host, "binary": "nova-compute"})
    assert names(cloud) == {"az1": True, "nova": False}
    cloud.admin.put("/os-services/disable", {"host": "node2", "binary": "nova-compute"})
    assert names(cloud) == {"az1": False, "nova": False}


def test_details_show_each_enabled_service_of_each_host(cloud: Cloud) -> None:
    for host in ("node1", "node2", "node3"):
        cloud.add_host(host, up=host != "node2")
    cloud.add_service("control1", "nova-scheduler")
    put_into_zone(cloud, "az1", "node1", "node2")
    cloud.admin.put("/os-services/disable", {"host": "node3", "binary": "nova-compute"})
    zones = cloud.admin.get("/os-availability-zone/detail").body["availabilityZoneInfo"]
    az1, internal, nova = sorted(zones, key=lambda zone: zone["zoneName"])
    services = {host: services["nova-compute"] for host, services in az1["hosts"].items()}
    assert {host: (service["active"], service["available"]) for host, service in services.items()} == {
        "node1": (True, True),
        "node2": (True, False),
    }
    assert services["node1"]["updated_at"].startswith("20")
    assert internal["zoneName"] == "internal"
    assert list(internal["hosts"]) == ["control1"]
    assert internal["hosts"]["control1"]["nova-scheduler"]["updated_at"] is None
    assert nova == {"zoneName": "nova", "zoneState": {"available": False}, "hosts": None}
