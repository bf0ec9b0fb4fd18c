# SPDX-License-Identifier: Apache-2.0
import json

import pytest
from tests.unit.scheduler.small_cloud import host, request, table

from kilonova.model.host import Capabilities
from kilonova.model.provider import Inventory
from kilonova.scheduler.filters import ComputeCapabilitiesFilter

CPU = {"features": ["aes", "sse4.2"], "topology": {"cores": 8}, "maxphysaddr": {"bits": 46}}
MAKE = Capabilities(
    hypervisor_type="QEMU",
    hypervisor_version=6002000,
    supported_instances=(("x86_64", "kvm", "hvm"),),
    cpu_info=CPU,
    extra={"gpu": "2", "text": json.dumps({"a": {"b": 3}}), "broken": "{", "nothing": None},
)
INVENTORIES = (Inventory("VCPU", 8, allocation_ratio=4.5), Inventory("MEMORY_MB", 1024), Inventory("DISK_GB", 200))


@pytest.mark.parametrize(
    ("key", "requirement", "expected"),
    [
        ("capabilities:hypervisor_type", "QEMU", True),
        ("hypervisor_type", "QEMU", True),
        ("hypervisor_type", "xen", False),
        ("unknown", "x", True),
        ("capabilities:unknown", "x", False),
        ("capabilities:gpu", ">= 2", True),
        ("gpu", ">= 3", False),
        ("capabilities:cpu_info:features", "<in> aes", True),
        ("capabilities:cpu_info:features", "<all-in> aes sse4.2", True),
        ("capabilities:cpu_info:features", "<all-in> es se4", True),
        ("capabilities:cpu_info:topology:cores", "= 4", True),
        ("capabilities:cpu_info:topology:cores:deeper", "= 4", False),
        ("capabilities:cpu_info:nothing", "= 4", False),
        ("hw:mem", "1", True),
        ("hw:maxphysaddr_bits", "46", True),
        ("hw:maxphysaddr_bits", "47", False),
        ("capabilities:vcpus_total", "s== 8", True),
        ("capabilities:vcpus_total", ">= 8", True),
        ("capabilities:vcpus_total:more", ">= 8", False),
        ("vcpus_total", "9", False),
        ("free_ram_mb", ">= 1025", False),
        ("free_disk_mb", "== 204800", True),
        ("disk_mb_used", "== 0", True),
        ("cpu_allocation_ratio", "s== 4.5", True),
        ("num_instances", "== 0", True),
        ("num_io_ops", "== 0", True),
        ("failed_builds", "== 0", True),
        ("hypervisor_type", ">= 3", False),
        ("hypervisor_version", ">= 6000000", True),
        ("capabilities:supported_instances", "<in> kvm", True),
        ("capabilities:text:a:b", "== 3", True),
        ("capabilities:broken:a", "== 3", False),
        ("capabilities:nothing", "x", False),
        ("capabilities:host", "node1", True),
        ("capabilities:host", "node2", False),
        ("capabilities:stats:gpu", "2", True),
        ("capabilities:stats:nothing:more", "2", False),
        ("capabilities:service:disabled", "False", True),
        ("capabilities:_row", "0", False),
        ("capabilities:", "x", False),
    ],
)
def test_capabilities_are_matched_as_executed_in_nova(key: str, requirement: str, expected: bool) -> None:
    hosts = table(host(capabilities=MAKE, inventories=INVENTORIES))
    assert ComputeCapabilitiesFilter().passes(hosts, request({key: requirement})).tolist() == [expected]


def test_a_host_without_inventory_counts_as_having_nothing() -> None:
    hosts = table(host(inventories=()))
    assert ComputeCapabilitiesFilter().passes(hosts, request({"vcpus_total": "== 0"})).tolist() == [True]


def test_each_make_of_host_is_judged_once_and_each_host_gets_its_verdict() -> None:
    hosts = table(host("a", capabilities=MAKE), host("b"), host("c", capabilities=MAKE, num_instances=4), host("d"))
    spec = request({"capabilities:gpu": "2", "num_instances": "<or> 0 <or> 3"})
    assert ComputeCapabilitiesFilter().passes(hosts, spec).tolist() == [True, False, False, False]


def test_a_flavor_without_extra_specs_passes_everywhere() -> None:
    hosts = table(host("a"), host("b"))
    assert ComputeCapabilitiesFilter().passes(hosts, request()) is hosts.all_hosts


@pytest.mark.parametrize(("requirement", "expected"), [("2001:db8::91", True), ("2001:DB8::0:91", False)])
def test_an_address_is_compared_in_its_canonical_spelling(requirement: str, expected: bool) -> None:
    hosts = table(host(host_ip="2001:DB8::0:91"))
    spec = request({"capabilities:host_ip": requirement})
    assert ComputeCapabilitiesFilter().passes(hosts, spec).tolist() == [expected]
