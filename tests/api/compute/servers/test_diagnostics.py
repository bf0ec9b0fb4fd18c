# SPDX-License-Identifier: Apache-2.0
"""Diagnostics of a guest: standard names from 2.48 on, names of the hypervisor before."""

from support.control import Control


def test_diagnostics(control: Control) -> None:
    control.add_flavor("2", vcpus=2, ram=1024)
    uuid = control.boot(flavorRef="2", config_drive=True)["id"]
    path = f"/servers/{uuid}/diagnostics"
    view = control.admin.get(path).body
    assert 0 <= view.pop("uptime") < 60
    disk = {"read_bytes": 0, "read_requests": 0, "write_bytes": 0, "write_requests": 0, "errors_count": 0}
    assert view == {
        "state": "running",
        "driver": "libvirt",
        "hypervisor": "kvm",
        "hypervisor_os": None,
        "config_drive": True,
        "num_cpus": 2,
        "num_nics": 0,
        "num_disks": 1,
        "memory_details": {"maximum": 1024, "used": 0},
        "cpu_details": [{"id": number, "time": 0, "utilisation": 0} for number in (0, 1)],
        "nic_details": [],
        "disk_details": [disk],
    }
    assert control.admin.at("2.47").get(path).body == {
        "cpu0_time": 0, "cpu1_time": 0, "vda_read": 0, "vda_read_req": 0, "vda_write": 0, "vda_write_req": 0,
        "vda_errors": 0, "memory": 1024 * 1024, "memory-actual": 0,
    }  # fmt: skip
    assert control.member.get(path).status == 403
    assert control.stranger.get(path).status == 404
    control.member.post(f"/servers/{uuid}/action", {"pause": None})
    control.settle()
    answer = control.admin.get(path)
    assert (answer.status, answer.fault[0]) == (409, "conflictingRequest")


def test_a_server_without_a_host(control: Control) -> None:
    control.add_flavor("9", vcpus=64)
    assert control.admin.get(f"/servers/{control.boot(flavorRef='9')['id']}/diagnostics").status == 409
