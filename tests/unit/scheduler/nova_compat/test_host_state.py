# SPDX-License-Identifier: Apache-2.0
import pytest
from tests.unit.scheduler.small_cloud import host, table

from kilonova.model.aggregate import Aggregate
from kilonova.model.host import Capabilities
from kilonova.model.host_devices import HostDevices
from kilonova.model.numa import HostCell, Pages
from kilonova.model.pci import PciPool
from kilonova.scheduler.nova_compat.host_state import HostState

HOSTS = table(
    host("other", last_seen=5.0),
    host(
        "compute2",
        node="compute2.example.org",
        uuid="uuid2",
        used={"VCPU": 3, "MEMORY_MB": 1024, "DISK_GB": 20},
        num_instances=1,
        num_io_ops=2,
        failed_builds=3,
        disabled=True,
        disabled_reason="broken",
        instances=("i1",),
        host_ip="10.0.0.2",
        capabilities=Capabilities("QEMU", 6002000, (("x86_64", "kvm", "hvm"),), {"arch": "x86_64"}, {"gpu": "2"}),
    ),
    aggregates=(Aggregate(7, "uuid7", "Trove", ("compute2",), {"availability_zone": "z", "CPU": "Trove"}),),
)


def test_a_host_state_has_the_attributes_nova_documents() -> None:
    state = HostState(HOSTS, 1)
    expected = {
        "host": "compute2",
        "nodename": "compute2.example.org",
        "hypervisor_hostname": "compute2.example.org",
        "uuid": "uuid2",
        "host_ip": "10.0.0.2",
        "free_ram_mb": 8192 - 512 - 1024,
        "total_usable_ram_mb": 8192,
        "ram_allocation_ratio": 1.0,
        "free_disk_mb": 180 * 1024,
        "total_usable_disk_gb": 200,
        "disk_mb_used": 20 * 1024,
        "disk_allocation_ratio": 1.0,
        "vcpus_total": 8,
        "vcpus_used": 3,
        "cpu_allocation_ratio": 4.0,
        "num_instances": 1,
        "num_io_ops": 2,
        "failed_builds": 3,
        "hypervisor_type": "QEMU",
        "hypervisor_version": 6002000,
        "cpu_info": {"arch": "x86_64"},
        "supported_instances": [["x86_64", "kvm", "hvm"]],
        "stats": {"gpu": "2", "num_instances": 1, "io_workload": 2, "failed_builds": 3},
        "limits": {},
        "numa_topology": None,
    }
    assert {name: getattr(state, name) for name in expected} == expected
    assert isinstance(state.free_ram_mb, int)
    assert (state.updated.timestamp(), state.allocation_candidates) == (HOSTS.taken_at, ())
    assert "free_ram_mb" in dir(state)
    assert list(state.instances) == ["i1"]
    assert state.service["disabled"] is True
    assert state.service.disabled_reason == "broken"
    with pytest.raises(AttributeError):
        _ = state.invalid
    state.invalid = state.free_ram_mb = 7
    assert (state.invalid, state.free_ram_mb, HostState(HOSTS, 1).free_ram_mb) == (7, 7, 6656)


def test_a_host_state_knows_its_aggregates() -> None:
    (trove,) = HostState(HOSTS, 1).aggregates
    assert (trove.id, trove.uuid, trove.name, trove.availability_zone) == (7, "uuid7", "Trove", "z")
    assert trove.hosts == ["compute2"]
    assert trove.metadata == {"availability_zone": "z", "CPU": "Trove"}
    assert HostState(HOSTS, 0).aggregates == []


def test_a_host_state_prints_as_in_the_log_of_the_document() -> None:
    expected = "(compute2, compute2.example.org) ram:6656 disk:184320 io_ops:2 instances:1"
    assert str(HostState(HOSTS, 1)) == repr(HostState(HOSTS, 1)) == expected


def test_cells_and_devices_are_shown_with_what_is_left_of_them() -> None:
    cell = HostCell(
        0,
        frozenset({0}),
        frozenset({1, 2}),
        2048,
        (frozenset({1, 2}),),
        (Pages(4, 100, 10, 20),),
        used_memory_mib=512,
        pinned=frozenset({1}),
    )
    pool = PciPool(0, "10de", "1db4", 3, 0, tags=(("physical_network", "a"),), used=1)
    told, silent = table(host("a", devices=HostDevices((cell,), (pool,))), host("b")), HostState(HOSTS, 0)
    state = HostState(told, 0)
    assert state.numa_topology is not None
    (shown,) = state.numa_topology.cells
    assert (shown.id, shown.cpuset, shown.pcpuset, shown.free_pcpus, shown.avail_pcpus) == (0, {0}, {1, 2}, {2}, 1)
    assert (shown.memory, shown.memory_usage, shown.avail_memory, shown.has_threads) == (2048, 512, 1536, True)
    assert shown.mempages == [{"size_kb": 4, "total": 100, "used": 20, "reserved": 10, "free": 70}]
    assert state.pci_stats == {
        "pools": [
            {
                "vendor_id": "10de",
                "product_id": "1db4",
                "numa_node": 0,
                "dev_type": "type-PCI",
                "count": 2,
                "physical_network": "a",
            }
        ]
    }
    assert (silent.numa_topology, silent.pci_stats) == (None, None)
