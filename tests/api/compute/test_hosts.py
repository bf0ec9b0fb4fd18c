# SPDX-License-Identifier: Apache-2.0
"""``/os-hosts``, which Nova has deprecated."""

from typing import Any

import pytest

from api.compute_cloud import Cloud


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
