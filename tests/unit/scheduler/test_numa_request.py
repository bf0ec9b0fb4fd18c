# SPDX-License-Identifier: Apache-2.0
"""NUMA topologies that flavors and images request, with extra specs and properties as Nova defines them."""

import pytest
from tests.unit.scheduler.small_cloud import flavor

from kilonova.errors import InvalidRequest
from kilonova.model.image import Image
from kilonova.model.numa import CpuPolicy, InstanceNuma, PageRequest, ThreadPolicy
from kilonova.scheduler.numa_request import numa_request

DEDICATED = {"hw:cpu_policy": "dedicated"}
MIXED = {"hw:cpu_policy": "mixed"}
Texts = dict[str, str]


def asked(specs: Texts, properties: Texts | None = None, vcpus: int = 4, memory_mib: int = 2048) -> InstanceNuma | None:
    return numa_request(
        flavor(specs, vcpus=vcpus, memory_mib=memory_mib), Image("i", properties=properties) if properties else None
    )


def shape(wanted: InstanceNuma | None) -> list[tuple[set[int], set[int], int]]:
    assert wanted is not None
    return [(set(cell.cpuset), set(cell.pcpuset), cell.memory_mib) for cell in wanted.cells]


@pytest.mark.parametrize(
    ("specs", "properties"),
    [
        ({}, {}),
        ({"hw:cpu_policy": "shared"}, {}),
        ({"ssd": "true"}, {"hw_cpu_policy": "shared"}),
        ({"hw:pmem": " "}, {}),
    ],
)
def test_most_servers_have_no_topology(specs: Texts, properties: Texts) -> None:
    assert asked(specs, properties) is None


def test_cells_are_even_unless_told_otherwise() -> None:
    assert shape(asked({"hw:numa_nodes": "2"})) == [({0, 1}, set(), 1024), ({2, 3}, set(), 1024)]
    uneven = {
        "hw:numa_nodes": "2",
        "hw:numa_cpus.0": "0-2",
        "hw:numa_mem.0": "1536",
        "hw:numa_cpus.1": "3",
        "hw:numa_mem.1": "512",
    }
    assert shape(asked(uneven)) == [({0, 1, 2}, set(), 1536), ({3}, set(), 512)]
    of_image = {key.replace("hw:", "hw_"): value for key, value in uneven.items()}
    assert shape(asked({}, of_image)) == shape(asked(uneven))


def test_dedicated_cpus_make_one_cell() -> None:
    assert shape(asked(DEDICATED)) == [(set(), {0, 1, 2, 3}, 2048)]
    assert shape(asked({}, {"hw_cpu_policy": "dedicated"})) == shape(asked(DEDICATED))
    assert shape(asked({"resources:PCPU": "4"})) == shape(asked(DEDICATED))
    assert shape(asked(DEDICATED, {"hw_cpu_policy": "shared"})) == shape(asked(DEDICATED))


def test_a_mixed_server_has_both() -> None:
    assert shape(asked({**MIXED, "hw:cpu_dedicated_mask": "^0"})) == [({0}, {1, 2, 3}, 2048)]
    realtime = {**MIXED, "hw:cpu_realtime": "yes", "hw:cpu_realtime_mask": "2-3"}
    assert shape(asked(realtime)) == [({0, 1}, {2, 3}, 2048)]
    nodes = {**MIXED, "hw:cpu_dedicated_mask": "0,3", "hw:numa_nodes": "2"}
    assert shape(asked(nodes)) == [({1}, {0}, 1024), ({2}, {3}, 1024)]


@pytest.mark.parametrize(
    ("specs", "properties", "policy"),
    [
        ({}, {}, None),
        ({"hw:cpu_thread_policy": "require"}, {}, ThreadPolicy.REQUIRE),
        ({"hw:cpu_thread_policy": "prefer"}, {"hw_cpu_thread_policy": "isolate"}, ThreadPolicy.PREFER),
        ({}, {"hw_cpu_thread_policy": "isolate"}, ThreadPolicy.ISOLATE),
        ({"trait:HW_CPU_HYPERTHREADING": "forbidden"}, {}, ThreadPolicy.ISOLATE),
        ({}, {"trait:HW_CPU_HYPERTHREADING": "required"}, ThreadPolicy.REQUIRE),
    ],
)
def test_thread_policies(specs: Texts, properties: Texts, policy: ThreadPolicy | None) -> None:
    wanted = asked({**DEDICATED, **specs}, properties)
    assert wanted is not None
    assert wanted.thread_policy is policy


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("small", PageRequest.SMALL),
        ("large", PageRequest.LARGE),
        ("any", PageRequest.ANY),
        ("2048", 2048),
        ("2MB", 2048),
        ("1GB", 1048576),
        ("2048KiB", 2048),
        ("16Mbit", 2048),
        ("0.5GB", 524288),
        (".5MiB", 512),
    ],
)
def test_sizes_of_pages(text: str, size: object) -> None:
    wanted = asked({"hw:mem_page_size": text})
    assert wanted is not None
    assert wanted.page_size == size
    assert wanted.cpu_policy is CpuPolicy.SHARED


def test_an_image_may_choose_among_large_pages() -> None:
    wanted = asked({"hw:mem_page_size": "large"}, {"hw_mem_page_size": "2MB"})
    assert wanted is not None
    assert wanted.page_size == 2048


def test_the_emulator_may_have_a_cpu_of_its_own() -> None:
    wanted = asked({**DEDICATED, "hw:emulator_threads_policy": "isolate"})
    assert wanted is not None
    assert wanted.isolate_emulator
    with_amount = asked({"resources:PCPU": "5", "hw:emulator_threads_policy": "isolate"})
    assert with_amount == wanted


@pytest.mark.parametrize(
    ("specs", "properties", "named"),
    [
        ({"hw:cpu_policy": "shared"}, {"hw_cpu_policy": "dedicated"}, "hw_cpu_policy"),
        ({**MIXED, "hw:cpu_dedicated_mask": "0"}, {"hw_cpu_policy": "dedicated"}, "hw_cpu_policy"),
        ({"hw:cpu_policy": "alone"}, {}, "hw:cpu_policy"),
        ({"hw:cpu_thread_policy": "require"}, {}, "hw:cpu_thread_policy"),
        ({**DEDICATED, "hw:cpu_thread_policy": "x"}, {}, "hw:cpu_thread_policy"),
        ({**DEDICATED, "hw:cpu_thread_policy": "require"}, {"hw_cpu_thread_policy": "isolate"}, "thread_policy"),
        ({**DEDICATED, "hw:cpu_thread_policy": "require", "trait:HW_CPU_HYPERTHREADING": "required"}, {}, "trait"),
        ({"hw:emulator_threads_policy": "isolate"}, {}, "hw:emulator_threads_policy"),
        ({**DEDICATED, "hw:emulator_threads_policy": "x"}, {}, "hw:emulator_threads_policy"),
        ({**DEDICATED, "hw:cpu_dedicated_mask": "0"}, {}, "hw:cpu_dedicated_mask"),
        (MIXED, {}, "hw:cpu_dedicated_mask"),
        ({**MIXED, "hw:cpu_dedicated_mask": "0-3"}, {}, "hw:cpu_dedicated_mask"),
        ({**MIXED, "hw:cpu_dedicated_mask": "7"}, {}, "hw:cpu_dedicated_mask"),
        ({**MIXED, "hw:cpu_dedicated_mask": "^0-3"}, {}, "hw:cpu_dedicated_mask"),
        ({**MIXED, "hw:cpu_dedicated_mask": "none"}, {}, "hw:cpu_dedicated_mask"),
        ({"hw:cpu_realtime": "true", "hw:cpu_realtime_mask": "^0"}, {}, "hw:cpu_realtime"),
        ({**DEDICATED, "hw:cpu_realtime": "true"}, {}, "hw:cpu_realtime_mask"),
        ({"hw:numa_nodes": "0"}, {}, "hw:numa_nodes"),
        ({"hw:numa_nodes": "two"}, {}, "hw:numa_nodes"),
        ({"hw:numa_nodes": "3"}, {}, "hw:numa_nodes"),
        ({"hw:numa_nodes": "2"}, {"hw_numa_nodes": "2"}, "hw_numa_nodes"),
        ({"hw:numa_nodes": "1", "hw:numa_cpus.0": "0-3"}, {}, "hw:numa_mem"),
        ({"hw:numa_nodes": "1", "hw:numa_cpus.0": "0-2", "hw:numa_mem.0": "2048"}, {}, "hw:numa_cpus"),
        ({"hw:numa_nodes": "1", "hw:numa_cpus.0": "0-4", "hw:numa_mem.0": "2048"}, {}, "hw:numa_cpus"),
        ({"hw:numa_nodes": "1", "hw:numa_cpus.0": "x", "hw:numa_mem.0": "2048"}, {}, "hw:numa_cpus"),
        ({"hw:numa_nodes": "1", "hw:numa_cpus.0": "0-3", "hw:numa_mem.0": "1024"}, {}, "hw:numa_mem"),
        ({"hw:numa_nodes": "1", "hw:numa_cpus.0": "0-3", "hw:numa_mem.0": "all"}, {}, "hw:numa_mem"),
        ({"hw:numa_nodes": "1", "hw:numa_cpus.0": "0-3"}, {"hw_numa_cpus.0": "0-3"}, "hw_numa_cpus"),
        ({}, {"hw_mem_page_size": "large"}, "hw_mem_page_size"),
        ({"hw:mem_page_size": "small"}, {"hw_mem_page_size": "large"}, "hw_mem_page_size"),
        ({"hw:mem_page_size": "huge"}, {}, "hw:mem_page_size"),
        ({"hw:mem_page_size": "1B"}, {}, "hw:mem_page_size"),
        ({"hw:mem_page_size": "2048.0"}, {}, "hw:mem_page_size"),
        ({**DEDICATED, "resources:VCPU": "4"}, {}, "resources:VCPU"),
        ({"resources:PCPU": "2", "resources:VCPU": "2"}, {}, "resources:VCPU"),
        ({"resources:PCPU": "3"}, {}, "resources:PCPU"),
    ],
)
def test_what_contradicts_itself_is_refused_by_name(specs: Texts, properties: Texts, named: str) -> None:
    with pytest.raises(InvalidRequest, match=named):
        asked(specs, properties)
