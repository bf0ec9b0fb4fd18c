# SPDX-License-Identifier: Apache-2.0
"""What the compute API keeps for older clients: hosts, extensions, the audit log, and what other services have now."""

import re
from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest

from api.compute_cloud import Cloud
from kilonova.api.compute import network_proxies, volume_proxies
from kilonova.api.compute.removed import gone
from kilonova.api.compute.servers import actions, servers, volumes_boot
from kilonova.db import usage_audits
from kilonova.model.audit_periods import Period

NOBODYS = "5b674f73-0000-4000-8000-000000000000"


def test_hosts_by_service_and_zone(cloud: Cloud) -> None:
    for host in ("node1", "node2", "node3"):
        cloud.add_host(host)
    cloud.add_service("controller", "nova-conductor")
    admin = cloud.admin.at("2.42")
    admin.post("/os-aggregates", {"aggregate": {"name": "east", "availability_zone": "east"}})
    admin.post("/os-aggregates/1/action", {"add_host": {"host": "node2"}})
    assert admin.put("/os-hosts/node3", {"status": "Disable"}).body == {"host": "node3", "status": "disabled"}
    assert admin.get("/os-hosts").body["hosts"] == [
        {"host_name": "node1", "service": "compute", "zone": "nova"},
        {"host_name": "node2", "service": "compute", "zone": "east"},
        {"host_name": "controller", "service": "conductor", "zone": "internal"},
    ]
    assert [host["host_name"] for host in admin.get("/os-hosts?zone=east").body["hosts"]] == ["node2"]
    assert admin.get("/os-hosts?zone=nowhere").body == {"hosts": []}
    (service,) = admin.get("/os-services?host=node3").body["services"]
    assert (service["status"], service["disabled_reason"]) == ("disabled", None)
    assert admin.put("/os-hosts/node3", {"status": "ENABLE"}).body == {"host": "node3", "status": "enabled"}
    assert len(admin.get("/os-hosts").body["hosts"]) == 4


def test_what_a_host_has(cloud: Cloud) -> None:
    node = cloud.add_host("node1", vcpus=8, memory_mib=16384, disk_gib=100)
    cloud.use(node, VCPU=3, MEMORY_MB=1536, DISK_GB=3)
    for project in ("wonder", "wonder", "zoo"):
        cloud.add_server("node1", project_id=project)

    def resource(project: str, cpu: int, memory_mb: int, disk_gb: int) -> dict[str, Any]:
        return {
            "resource": {
                "host": "node1", "project": project, "cpu": cpu, "memory_mb": memory_mb, "disk_gb": disk_gb,
            }
        }  # fmt: skip

    assert cloud.admin.get("/os-hosts/node1").body["host"] == [
        resource("(total)", 8, 16384, 100),
        resource("(used_now)", 3, 2048, 3),  # what is reserved counts
        resource("(used_max)", 3, 1536, 3),
        resource("wonder", 2, 1024, 2),
        resource("zoo", 1, 512, 1),
    ]
    assert cloud.admin.get("/os-hosts/gone").status == 404
    assert cloud.admin.at("2.43").get("/os-hosts/node1").status == 404


@pytest.mark.parametrize("body", [{}, {"status": "off"}, {"maintenance_mode": True}, {"status": "enable", "more": "x"}])
def test_bad_changes_of_hosts(cloud: Cloud, body: Any) -> None:
    cloud.add_host("node1")
    assert cloud.admin.put("/os-hosts/node1", body).status == 400


def test_what_no_hypervisor_does_to_its_machine(cloud: Cloud, caplog: pytest.LogCaptureFixture) -> None:
    cloud.add_host("node1")
    cloud.add_host("node2", up=False)
    before = cloud.everything()
    for word in ("startup", "shutdown", "reboot"):
        assert cloud.admin.get(f"/os-hosts/node1/{word}").status == 501
        assert cloud.admin.get(f"/os-hosts/node2/{word}").status == 400
        assert cloud.admin.get(f"/os-hosts/gone/{word}").status == 404
        assert cloud.member.get(f"/os-hosts/node1/{word}").status == 403
    for body in ({"maintenance_mode": "enable"}, {"status": "disable", "maintenance_mode": "disable"}):
        assert cloud.admin.put("/os-hosts/node1", body).status == 501
        assert cloud.admin.put("/os-hosts/gone", body).status == 404
    assert cloud.everything() == before
    assert not [record for record in caplog.records if record.exc_info or record.levelname == "ERROR"]


def test_extensions(cloud: Cloud) -> None:
    for version in ("2.1", "2.104"):
        listed = cloud.member.at(version).get("/extensions").body["extensions"]
        aliases = [each["alias"] for each in listed]
        assert len(aliases) == len(set(aliases)) > 90
        # What clients look for before they offer something.
        assert {"os-simple-tenant-usage", "os-keypairs", "OS-EXT-AZ", "os-block-device-mapping-v2-boot"} <= {*aliases}
        shown = cloud.member.at(version).get("/extensions/os-keypairs").body["extension"]
        assert shown in listed
        assert (shown["name"], shown["links"]) == ("Keypairs", [])
        assert cloud.member.at(version).get("/extensions/os-nothing").status == 404


def test_the_audit_log_says_how_far_the_audit_of_a_period_is(cloud: Cloud) -> None:
    assert cloud.admin.get("/os-instance_usage_audit_log").body["instance_usage_audit_logs"]["num_hosts"] == 0
    for host in ("node2", "node1"):
        cloud.add_host(host)
    period = Period(datetime.fromisoformat("2026-02-01"), datetime.fromisoformat("2026-03-01"))
    stages = (
        (lambda _: None, 0, 0, ["node1", "node2"], "0 of 2 hosts done. 0 errors."),
        (lambda tx: usage_audits.begin(tx, period), 0, 2, [], "0 of 2 hosts done. 0 errors."),
        (lambda tx: usage_audits.take(tx, period, 10), 2, 0, [], "ALL hosts done. 0 errors."),
    )
    for work, done, running, not_run, status in stages:
        cloud.database.write(work)
        for written in ("2026-03-15 12:00:00", "2026-03-15%2012:00:00.123456"):
            log = cloud.admin.get(f"/os-instance_usage_audit_log/{written}").body["instance_usage_audit_log"]
            assert log == {
                "period_beginning": "2026-02-01 00:00:00", "period_ending": "2026-03-01 00:00:00", "num_hosts": 2,
                "num_hosts_done": done, "num_hosts_running": running, "num_hosts_not_run": len(not_run),
                "hosts_not_run": not_run, "total_instances": 0, "total_errors": 0, "overall_status": status, "log": {},
            }  # fmt: skip
    for nonsense in ("yesterday", "2026-13-01 00:00:00", "0001-01-01 00:00:00", "2026-03-15T12:00:00"):
        assert cloud.admin.get(f"/os-instance_usage_audit_log/{nonsense}").status == 400


def test_what_other_services_would_have_is_nothing(cloud: Cloud) -> None:
    """Of every route that Nova once handed on, and later clients do not find."""
    for routes in (network_proxies.ROUTES, volume_proxies.ROUTES):
        for template, endpoints in routes.items():
            path = re.sub(r"{\w+}", NOBODYS, template)
            for method, endpoint in endpoints.items():
                if endpoint.handler is gone:
                    assert cloud.admin.at("2.104").send(method, path).status == 410
                    continue
                answer = cloud.admin.at("2.35").send(method, path)
                if "{" in template:
                    assert answer.status == 404
                elif method == "GET":
                    (listed,) = answer.body.values()
                    assert (answer.status, listed) == (200, [])
                else:
                    assert answer.status == 400
                    assert "service is configured" in answer.fault[1]
                assert cloud.admin.at("2.36").send(method, path).status == 404
    assert cloud.member.get("/os-baremetal-nodes").status == 403
    assert cloud.as_user("bob", "wonder", "reader").post("/os-volumes", {"volume": {}}).status == 403


def test_servers_under_the_path_of_volumes(cloud: Cloud) -> None:
    uuid = cloud.add_server(None, name="same")
    member, path = cloud.member.at("2.102"), f"/os-volumes_boot/{uuid}"
    assert member.get(path).body == member.get(f"/servers/{uuid}").body
    assert [server["name"] for server in member.get("/os-volumes_boot/detail").body["servers"]] == ["same"]
    assert member.put(path, {"server": {"name": "other"}}).status == 200
    assert member.post(f"{path}/action", {"nonsense": None}).status == 400
    assert cloud.as_user("mallory", "elsewhere").at("2.102").get(path).status == 404
    assert cloud.member.at("2.103").get(path).status == 404


def test_what_is_there_under_both_paths_is_the_same() -> None:
    for template, endpoints in {**servers.ROUTES, **actions.ROUTES}.items():
        others = volumes_boot.ROUTES[template.replace("/servers", "/os-volumes_boot")]
        assert others.keys() == endpoints.keys()
        for method, endpoint in endpoints.items():
            assert replace(others[method], until=None) == endpoint
