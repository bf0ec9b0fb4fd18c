# SPDX-License-Identifier: Apache-2.0
import json

from tests.unit.scheduler.small_cloud import flavor, host, one_host_in, request, table
from tests.unit.scheduler.small_devices import PINNED, cell, gpus

from kilonova.model.host_devices import HostDevices
from kilonova.model.provider import Inventory
from kilonova.model.request_spec import RequestSpec
from kilonova.scheduler.filters import NUMATopologyFilter
from kilonova.scheduler.settings import SchedulerConfig

ALIAS = json.dumps({"name": "gpu", "vendor_id": "10de", "product_id": "1db4", "numa_policy": "required"})
RULE = NUMATopologyFilter.configured(SchedulerConfig(pci_alias=(ALIAS,)))
HOSTS = table(
    host("silent"),
    host("one", devices=HostDevices((cell(0),))),
    host("two", devices=HostDevices((cell(0), cell(1)), (gpus(0, 1, 1),))),
    host("busy", devices=HostDevices((cell(0), cell(1, pinned=frozenset(range(10, 18)))), (gpus(0, 1, 1),))),
)


def asked(specs: dict[str, str], vcpus: int = 4) -> RequestSpec:
    return request(flavor=flavor(specs, vcpus=vcpus, memory_mib=2048))


def test_a_server_without_numa_topology_passes_everywhere() -> None:
    assert RULE.passes(HOSTS, asked({})) is HOSTS.all_hosts


def test_each_cell_of_the_server_needs_a_cell_of_the_host() -> None:
    assert RULE.passes(HOSTS, asked(PINNED)).tolist() == [False, True, True, True]
    assert RULE.passes(HOSTS, asked({**PINNED, "hw:numa_nodes": "2"})).tolist() == [False, False, True, False]
    assert not RULE.passes(HOSTS, asked({**PINNED, "hw:numa_nodes": "2"}, vcpus=18)).any()


def test_a_required_device_must_be_in_the_cell_of_the_server() -> None:
    near = asked({**PINNED, "pci_passthrough:alias": "gpu:1"})
    assert RULE.passes(HOSTS, near).tolist() == [False, False, True, False], "the busy host has its device in cell 1"


def test_a_contradictory_request_passes_nowhere() -> None:
    assert not RULE.passes(HOSTS, asked({**PINNED, "hw:numa_nodes": "3"})).any()
    assert not RULE.passes(HOSTS, asked({**PINNED, "pci_passthrough:alias": "unknown:1"})).any()


def test_each_host_is_judged_by_its_own_allocation_ratio() -> None:
    devices = HostDevices((cell(0, used_cpus=2),))
    shared = asked({"hw:numa_nodes": "1"}, vcpus=2)
    for ratio, expected in ((1.0, False), (2.0, True)):
        inventories = (Inventory("VCPU", 8, allocation_ratio=ratio), Inventory("MEMORY_MB", 8192))
        hosts = one_host_in(devices=devices, inventories=inventories)
        assert RULE.passes(hosts, shared).tolist() == [expected]
