# SPDX-License-Identifier: Apache-2.0
"""Servers with dedicated CPUs and devices, asked for over the API."""

import pytest

from kilonova.cli.wiring.control import image_id
from kilonova.db import host_devices
from support.control import Control, NewControl

SCENARIO = """
images: [{name: cirros}, {name: pinned, properties: {hw_cpu_policy: dedicated}}]
hosts:
  - name: node1
    memory_mib: 4096
    numa: [{memory_mib: 4096, cpus: 0-3, dedicated: 4-7}]
    pci: [{vendor_id: 10de, product_id: 1db4, count: 1}]
"""
OPTIONS = """
[filter_scheduler]
enabled_filters = ComputeFilter,NUMATopologyFilter,PciPassthroughFilter
[pci]
alias = {"name": "gpu", "vendor_id": "10de", "product_id": "1db4"}
"""


@pytest.fixture
def control(new_control: NewControl) -> Control:
    return new_control(scenario=SCENARIO, more=OPTIONS, flavor=False)


def with_specs(control: Control, flavor_id: str, vcpus: int = 2, **specs: str) -> str:
    control.add_flavor(flavor_id, vcpus=vcpus)
    named = {key.replace("__", ":"): value for key, value in specs.items()}
    assert control.admin.post(f"/flavors/{flavor_id}/os-extra_specs", {"extra_specs": named}).status == 200
    return flavor_id


def test_dedicated_cpus_and_devices_are_given_once_and_come_back(control: Control) -> None:
    pinned = with_specs(control, "7", hw__cpu_policy="dedicated", pci_passthrough__alias="gpu:1")
    first = control.boot(flavorRef=pinned)
    assert first["status"] == "ACTIVE"
    with control.process.database.read() as connection:
        share = {each.instance_uuid: each.share for each in host_devices.shares(connection)}.get(first["id"])
    assert share is not None
    assert (sorted(share.cells[0].pinned), share.devices) == ([4, 5], ((0, 1),))
    second = control.boot(flavorRef=pinned)
    path = f"/servers/{first['id']}/topology"
    cell = {"vcpu_set": [0, 1], "siblings": [], "memory_mb": 512}
    at_home = {"host_node": 0, "cpu_pinning": {"0": 4, "1": 5}}
    assert control.admin.get(path).body == {"nodes": [cell | at_home], "pagesize_kb": None}
    assert control.member.get(path).body == {"nodes": [cell], "pagesize_kb": None}
    assert control.member.at("2.77").get(path).status == 404
    assert control.member.get(f"/servers/{second['id']}/topology").body == {"nodes": [], "pagesize_kb": None}
    assert second["status"] == "ERROR"
    assert "NUMATopologyFilter: 1 of 1 hosts" in second["fault"]["message"]
    for server in (first, second):
        assert control.admin.delete(f"/servers/{server['id']}").status == 204
        control.settle()
    assert control.boot(flavorRef=pinned)["status"] == "ACTIVE"
    control.check()


@pytest.mark.parametrize(
    ("specs", "named"),
    [
        ({"hw__numa_nodes": "2", "hw__numa_cpus.0": "0"}, "hw:numa_cpus"),
        ({"hw__cpu_thread_policy": "require"}, "hw:cpu_thread_policy"),
        ({"pci_passthrough__alias": "fpga:1"}, "fpga"),
    ],
)
def test_what_cannot_be_is_refused_at_once(control: Control, specs: dict[str, str], named: str) -> None:
    flavor = with_specs(control, "7", **specs)
    before = control.everything()
    answer = control.ask(flavorRef=flavor)
    assert (answer.status, answer.fault[0]) == (400, "badRequest")
    assert named in answer.fault[1]
    assert control.everything() == before


def test_an_image_may_not_override_its_flavor(control: Control) -> None:
    shared = with_specs(control, "7", hw__cpu_policy="shared")
    answer = control.ask(flavorRef=shared, imageRef=image_id("pinned"))
    assert answer.status == 400
    assert "hw_cpu_policy" in answer.fault[1]
