# SPDX-License-Identifier: Apache-2.0
import re
from datetime import datetime, timedelta
from typing import Any

import pytest
import sqlalchemy as sa

from api.compute_cloud import Cloud
from kilonova.api.compute.uptimes import uptime_text
from kilonova.db.compute_nodes import capabilities_as_json
from kilonova.db.core import tables as t
from kilonova.model.host import Capabilities
from kilonova.model.instance import TaskState
from support.api_client import Answer
from support.databases import on_every_database

USAGE = {
    "vcpus",
    "memory_mb",
    "local_gb",
    "vcpus_used",
    "memory_mb_used",
    "local_gb_used",
    "free_ram_mb",
    "free_disk_gb",
    "current_workload",
    "running_vms",
    "disk_available_least",
}


def get(cloud: Cloud, path: str, version: str) -> Answer:
    return cloud.admin.at(version).get(f"/os-hypervisors{path}")


def names(answer: Answer) -> list[str]:
    assert answer.status == 200, answer.body
    return [each["hypervisor_hostname"] for each in answer.body["hypervisors"]]


def fill(cloud: Cloud) -> None:
    node = cloud.add_host("node1")
    cloud.use(node, VCPU=3, MEMORY_MB=1024, DISK_GB=10)
    cloud.add_server("node1", name="vm1")
    cloud.add_server("node1", name="vm2", task_state=TaskState.REBOOTING)
    cloud.remove_server(cloud.add_server("node1", name="gone"))


def test_the_short_view(cloud: Cloud) -> None:
    node = cloud.add_host("node1")
    short = {"hypervisor_hostname": "node1", "state": "up", "status": "enabled"}
    assert get(cloud, "", "2.1").body == {"hypervisors": [{"id": 1, **short}]}
    assert get(cloud, "", "2.53").body == {"hypervisors": [{"id": node.uuid, **short}]}


def test_state_follows_the_heartbeat_and_status_the_operator(cloud: Cloud) -> None:
    cloud.add_host("node1", up=False)
    cloud.admin.put(
        "/os-services/disable-log-reason", {"host": "node1", "binary": "nova-compute", "disabled_reason": "x"}
    )
    (shown,) = get(cloud, "/detail", "2.88").body["hypervisors"]
    assert (shown["state"], shown["status"], shown["service"]["disabled_reason"]) == ("down", "disabled", "x")


@on_every_database
def test_details_of_the_first_version(cloud: Cloud) -> None:
    fill(cloud)
    expected = {
        "id": 1,
        "hypervisor_hostname": "node1",
        "state": "up",
        "status": "enabled",
        "hypervisor_type": "fake",
        "hypervisor_version": 1000,
        "host_ip": "10.0.0.7",
        "service": {"id": 1, "host": "node1", "disabled_reason": None},
        "cpu_info": '{"arch":"x86_64"}',
        "vcpus": 8,
        "vcpus_used": 3,
        "memory_mb": 16384,
        "memory_mb_used": 1536,
        "free_ram_mb": 14848,
        "local_gb": 100,
        "local_gb_used": 10,
        "free_disk_gb": 90,
        "disk_available_least": 90,
        "current_workload": 1,
        "running_vms": 2,
    }
    assert get(cloud, "/detail", "2.1").body == {"hypervisors": [expected]}
    assert get(cloud, "/1", "2.1").body == {"hypervisor": expected}


def test_cpu_info_is_an_object_from_2_28(cloud: Cloud) -> None:
    fill(cloud)
    assert get(cloud, "/1", "2.27").body["hypervisor"]["cpu_info"] == '{"arch":"x86_64"}'
    assert get(cloud, "/1", "2.28").body["hypervisor"]["cpu_info"] == {"arch": "x86_64"}


def test_usage_is_gone_from_2_88(cloud: Cloud) -> None:
    node = cloud.add_host("node1")
    service = cloud.admin.at("2.53").get("/os-services").body["services"][0]["id"]
    before = get(cloud, f"/{node.uuid}", "2.87").body["hypervisor"]
    after = get(cloud, f"/{node.uuid}", "2.88").body["hypervisor"]
    assert set(before) - set(after) == USAGE | {"cpu_info"}
    assert after == {
        "id": node.uuid,
        "hypervisor_hostname": "node1",
        "state": "up",
        "status": "enabled",
        "hypervisor_type": "fake",
        "hypervisor_version": 1000,
        "host_ip": "10.0.0.7",
        "service": {"id": service, "host": "node1", "disabled_reason": None},
        "uptime": after["uptime"],
    }


@on_every_database
def test_statistics_leave_disabled_hosts_out_and_end_with_2_87(cloud: Cloud) -> None:
    fill(cloud)
    cloud.add_host("node2", vcpus=2)
    cloud.add_host("node3")
    cloud.admin.put("/os-services/disable", {"host": "node3", "binary": "nova-compute"})
    found = get(cloud, "/statistics", "2.87").body["hypervisor_statistics"]
    assert set(found) == USAGE | {"count"}
    assert (found["count"], found["vcpus"], found["vcpus_used"], found["running_vms"]) == (2, 10, 3, 2)
    assert get(cloud, "/statistics", "2.88").status == 404


def test_statistics_of_nothing_are_zero(cloud: Cloud) -> None:
    assert set(get(cloud, "/statistics", "2.1").body["hypervisor_statistics"].values()) == {0}


def test_pages_from_2_33(cloud: Cloud) -> None:
    for number in range(1, 8):
        cloud.add_host(f"node{number}")
    assert len(names(get(cloud, "?limit=2", "2.32"))) == 7
    first = get(cloud, "?limit=3", "2.33")
    assert names(first) == ["node1", "node2", "node3"]
    (link,) = first.body["hypervisors_links"]
    assert (link["rel"], link["href"]) == ("next", "http://cloud/compute/v2.1/os-hypervisors?limit=3&marker=3")
    last = get(cloud, "/detail?limit=3&marker=6", "2.33")
    assert names(last) == ["node7"]
    assert "hypervisors_links" not in last.body
    whole = get(cloud, "", "2.53")
    assert len(names(whole)) == 5
    assert whole.body["hypervisors"][-1]["id"] in whole.body["hypervisors_links"][0]["href"]


@pytest.mark.parametrize("query", ["?limit=-1", "?limit=x", "?limit=", "?marker=99", "?marker=x"])
def test_bad_pages_are_refused(cloud: Cloud, query: str) -> None:
    cloud.add_host("node1")
    assert get(cloud, query, "2.33").status == 400


def test_search_by_name_until_2_52(cloud: Cloud) -> None:
    for host in ("red1", "red2", "blue1"):
        cloud.add_host(host)
    cloud.add_server("red2", name="vm")
    assert names(get(cloud, "/red/search", "2.52")) == ["red1", "red2"]
    assert get(cloud, "/green/search", "2.52").status == 404
    assert get(cloud, "/red/search", "2.53").status == 404
    found = get(cloud, "/red/servers", "2.52").body["hypervisors"]
    assert "servers" not in found[0]
    assert [server["name"] for server in found[1]["servers"]] == ["vm"]
    assert get(cloud, "/green/servers", "2.52").status == 404
    assert get(cloud, "/red/servers", "2.53").status == 404


def test_search_by_name_in_the_query_from_2_53(cloud: Cloud) -> None:
    for host in ("red1", "red2", "blue1"):
        cloud.add_host(host)
    assert len(names(get(cloud, "?hypervisor_hostname_pattern=red", "2.52"))) == 3
    assert names(get(cloud, "?hypervisor_hostname_pattern=red", "2.53")) == ["red1", "red2"]
    assert get(cloud, "?hypervisor_hostname_pattern=green", "2.53").status == 404
    assert get(cloud, "?hypervisor_hostname_pattern=red&limit=1", "2.53").status == 400
    assert get(cloud, "?hypervisor_hostname_pattern=red&marker=a", "2.53").status == 400


@on_every_database
@pytest.mark.parametrize("query", ["colour=red", "limit=1&limit=2", "with_servers=1&with_servers=0"])
def test_queries_are_read_strictly_from_2_53(cloud: Cloud, query: str) -> None:
    cloud.add_host("red")
    assert get(cloud, f"?{query}", "2.52").status == 200
    assert get(cloud, f"?{query}", "2.53").status == 400


def test_servers_on_request_from_2_53(cloud: Cloud) -> None:
    node = cloud.add_host("node1")
    cloud.add_host("node2")
    server = cloud.add_server("node1", name="vm1")
    there: list[dict[str, Any]] = [{"uuid": server, "name": "vm1"}]
    for path in ("", "/detail"):
        full, empty = get(cloud, f"{path}?with_servers=true", "2.53").body["hypervisors"]
        assert full["servers"] == there
        assert "servers" not in empty
        assert get(cloud, f"{path}?with_servers=1", "2.75").body["hypervisors"][1]["servers"] == []
        assert "servers" not in get(cloud, f"{path}?with_servers=False", "2.75").body["hypervisors"][0]
    assert get(cloud, f"/{node.uuid}?with_servers=true", "2.53").body["hypervisor"]["servers"] == there
    assert get(cloud, f"/{node.uuid}?with_servers=maybe", "2.53").status == 400


@pytest.mark.parametrize(
    ("given", "version", "status"),
    [
        ("99", "2.52", 404),
        ("node1", "2.52", 404),
        ("1", "2.53", 400),
        ("node1", "2.88", 400),
        ("8a5b6c1c-0000-4000-8000-000000000000", "2.53", 404),
    ],
)
def test_unknown_hypervisors(cloud: Cloud, given: str, version: str, status: int) -> None:
    cloud.add_host("node1")
    assert get(cloud, f"/{given}", version).status == status
    assert get(cloud, f"/{given}/uptime", version).status == (404 if version == "2.88" else status)


def test_a_simulated_machine_is_up_as_long_as_its_process(cloud: Cloud) -> None:
    node = cloud.add_host("node1")
    started = cloud.database.clock.now() - timedelta(days=1, hours=2, minutes=3, seconds=4)
    cloud.database.write(lambda tx: tx.execute(sa.update(t.processes).values(started_at=started)))
    clock = r" \d\d:\d\d:\d\d up 1 day,  2:03,  0 users,  load average: 0.00, 0.00, 0.00"
    assert re.fullmatch(clock, get(cloud, "/1/uptime", "2.52").body["hypervisor"]["uptime"])
    assert re.fullmatch(clock, get(cloud, f"/{node.uuid}", "2.88").body["hypervisor"]["uptime"])
    assert re.fullmatch(clock, get(cloud, "/detail", "2.88").body["hypervisors"][0]["uptime"])
    cloud.age("node1")
    assert get(cloud, "/1/uptime", "2.1").status == 400


def test_the_uptime_of_other_machines_is_for_their_drivers_to_say(cloud: Cloud) -> None:
    cloud.add_host("node1")
    unknown = capabilities_as_json(Capabilities("QEMU"))
    known = capabilities_as_json(Capabilities("QEMU", extra={"uptime": "up since long"}))

    def report(capabilities: Any) -> None:
        cloud.database.write(lambda tx: tx.execute(sa.update(t.compute_nodes).values(capabilities=capabilities)))

    report(unknown)
    answer = get(cloud, "/1/uptime", "2.1")
    assert (answer.status, answer.fault[0]) == (501, "notImplemented")
    assert get(cloud, "/detail", "2.88").body["hypervisors"][0]["uptime"] is None
    report(known)
    assert get(cloud, "/1/uptime", "2.1").body["hypervisor"]["uptime"] == "up since long"


@pytest.mark.parametrize(
    ("seconds", "length"),
    [(0, "0 min"), (59, "0 min"), (3599, "59 min"), (3600, " 1:00"), (86399, "23:59"), (86400, "1 day, 0 min"),
     (2 * 86400 + 36000, "2 days, 10:00"), (-5, "0 min")],
)  # fmt: skip
def test_uptimes_as_the_command_prints_them(seconds: int, length: str) -> None:
    now = datetime.fromisoformat("2026-01-31T08:09:10")
    text = uptime_text(now - timedelta(seconds=seconds), now)
    assert text == f" 08:09:10 up {length},  0 users,  load average: 0.00, 0.00, 0.00"
