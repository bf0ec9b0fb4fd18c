# SPDX-License-Identifier: Apache-2.0
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.scheduler.small_cloud import INVENTORIES, flavor, host, request, table

from kilonova.model.image import Image
from kilonova.model.provider import Inventory
from kilonova.model.request_spec import ResourceGroup, ResourceQuery
from kilonova.scheduler.engine.engine import Engine
from kilonova.scheduler.request_filters import configured_request_filters
from kilonova.scheduler.resources import resource_query, with_resources
from kilonova.scheduler.settings import SchedulerConfig

BASE = {"VCPU": 2, "MEMORY_MB": 2048, "DISK_GB": 20}


@pytest.mark.parametrize(
    ("extra_specs", "expected"),
    [
        ({}, BASE),
        ({"resources:VCPU": "0"}, {"MEMORY_MB": 2048, "DISK_GB": 20}),
        ({"resources:MEMORY_MB": "4096"}, {**BASE, "MEMORY_MB": 4096}),
        ({"resources:CUSTOM_GOLD": "1"}, {**BASE, "CUSTOM_GOLD": 1}),
        ({"resources1:VGPU": "1", "resources_b-2:VGPU": "2"}, {**BASE, "VGPU": 3}),
        ({"resources1:DISK_GB": "5"}, {**BASE, "DISK_GB": 5}),
        ({"resources:PCPU": "2"}, {"PCPU": 2, "MEMORY_MB": 2048, "DISK_GB": 20}),
        ({"resources:VGPU": "one"}, BASE),
        ({"resources:VGPU": "-1"}, BASE),
        ({"resources:": "1", "resourcesVGPU": "1", "my_resources:VGPU": "1"}, BASE),
    ],
)
def test_extra_specs_override_the_flavor(extra_specs: dict[str, str], expected: dict[str, int]) -> None:
    asked = resource_query(flavor(extra_specs, vcpus=2, memory_mib=2048, root_gib=20))
    assert asked.totals == expected


@pytest.mark.parametrize(
    ("root", "ephemeral", "swap", "volume_backed", "expected"),
    [
        (20, 0, 0, False, 20),
        (20, 10, 1, False, 31),
        (20, 10, 1024, False, 31),
        (20, 10, 1025, False, 32),
        (20, 10, 0, True, 10),
        (20, 0, 0, True, None),
        (0, 0, 0, False, None),
    ],
)
def test_disk_is_root_and_ephemeral_and_swap(
    root: int, ephemeral: int, swap: int, volume_backed: bool, expected: int | None
) -> None:
    asked = resource_query(flavor(root_gib=root, ephemeral_gib=ephemeral, swap_mib=swap), volume_backed=volume_backed)
    assert asked.resources.get("DISK_GB") == expected


def test_traits_come_from_flavor_and_image() -> None:
    asked = resource_query(
        flavor({"trait:A": "required", "trait:B": "forbidden", "trait3:C": "required", "trait:D": "maybe"}),
        Image("i", properties={"trait:E": "required", "trait:F": "forbidden", "os": "required"}),
    )
    assert asked.required == {"A", "C", "E"}
    assert asked.forbidden == {"B"}


@pytest.mark.parametrize("key", ["trait1:CUSTOM_A", "trait_gold:CUSTOM_A"])
def test_an_image_has_no_groups_so_a_trait_with_a_suffix_is_a_property_like_any_other(key: str) -> None:
    assert resource_query(flavor(), Image("i", properties={key: "required"})).required == frozenset()


def test_what_the_query_already_asks_for_is_kept() -> None:
    spec = request({"trait:A": "required"}).with_query(
        required=frozenset({"B"}), forbidden=frozenset({"C"}), member_of=(frozenset({"u"}),)
    )
    query = with_resources(spec).query
    assert query.required == {"A", "B"}
    assert query.forbidden == {"C"}
    assert query.member_of == (frozenset({"u"}),)
    assert query.resources == {"VCPU": 1, "MEMORY_MB": 512, "DISK_GB": 1}


def ask(extra_specs: dict[str, str], properties: dict[str, str] | None = None, vcpus: int = 2) -> ResourceQuery:
    image = Image("i", properties=properties or {})
    return resource_query(flavor(extra_specs, vcpus=vcpus, memory_mib=2048, root_gib=20), image)


def test_groups_with_a_suffix_keep_their_resources_and_traits_to_themselves() -> None:
    asked = ask(
        {
            "resources:CUSTOM_GOLD": "1",
            "resources1:VGPU": "1",
            "trait1:CUSTOM_FAST": "required",
            "trait1:CUSTOM_OLD": "forbidden",
            "resources_net:CUSTOM_BANDWIDTH": "100",
            "resources_net:MEMORY_MB": "0",
            "resources3:VCPU": "0",
            "trait3:CUSTOM_ALONE": "required",
            "trait:CUSTOM_HOST": "required",
            "group_policy": "isolate",
        }
    )
    assert asked.resources == {"DISK_GB": 20, "CUSTOM_GOLD": 1}
    assert asked.groups == (
        ResourceGroup("1", {"VGPU": 1}, frozenset({"CUSTOM_FAST"}), frozenset({"CUSTOM_OLD"})),
        ResourceGroup("_net", {"CUSTOM_BANDWIDTH": 100}),
    )
    assert asked.required == {"CUSTOM_HOST", "CUSTOM_ALONE"}
    assert asked.forbidden == frozenset()
    assert asked.isolates


@pytest.mark.parametrize(("given", "expected"), [("none", "none"), ("isolate", "isolate"), ("apart", None), ("", None)])
def test_other_group_policies_count_for_nothing(given: str, expected: str | None) -> None:
    asked = ask({"resources1:VGPU": "1", "resources2:VGPU": "1", "group_policy": given})
    assert asked.group_policy == expected
    assert ask({"group_policy": given}).group_policy is None


@pytest.mark.parametrize(
    ("extra_specs", "properties", "cpus", "thread_traits"),
    [
        ({"hw:cpu_policy": "dedicated"}, {}, {"PCPU": 4}, ("", "")),
        ({}, {"hw_cpu_policy": "dedicated"}, {"PCPU": 4}, ("", "")),
        ({"hw:cpu_policy": "dedicated", "hw:emulator_threads_policy": "isolate"}, {}, {"PCPU": 5}, ("", "")),
        ({"hw:cpu_policy": "dedicated", "hw:emulator_threads_policy": "share"}, {}, {"PCPU": 4}, ("", "")),
        ({"hw:cpu_policy": "dedicated", "hw:cpu_thread_policy": "require"}, {}, {"PCPU": 4}, ("r", "")),
        ({"hw:cpu_policy": "dedicated"}, {"hw_cpu_thread_policy": "isolate"}, {"PCPU": 4}, ("", "f")),
        ({"hw:cpu_policy": "dedicated", "hw:cpu_thread_policy": "prefer"}, {}, {"PCPU": 4}, ("", "")),
        ({"hw:cpu_policy": "mixed", "hw:cpu_dedicated_mask": "0,2-3"}, {}, {"PCPU": 3, "VCPU": 1}, ("", "")),
        (
            {"hw:cpu_policy": "mixed", "hw:cpu_realtime": "yes", "hw:cpu_realtime_mask": "^0"},
            {},
            {"PCPU": 3, "VCPU": 1},
            ("", ""),
        ),
        (
            {"hw:cpu_policy": "mixed", "hw:cpu_dedicated_mask": "0", "hw:emulator_threads_policy": "isolate"},
            {},
            {"PCPU": 2, "VCPU": 3},
            ("", ""),
        ),
    ],
)
def test_pinned_cpus_are_asked_for_as_pcpu_or_else_as_vcpu(
    extra_specs: dict[str, str], properties: dict[str, str], cpus: dict[str, int], thread_traits: tuple[str, str]
) -> None:
    asked = ask(extra_specs, properties, vcpus=4)
    rest = {"MEMORY_MB": 2048, "DISK_GB": 20}
    assert asked.resources == {**cpus, **rest}
    assert ("HW_CPU_HYPERTHREADING" in asked.required, "HW_CPU_HYPERTHREADING" in asked.forbidden) == (
        thread_traits[0] == "r",
        thread_traits[1] == "f",
    )
    if "VCPU" in cpus:  # where some CPUs are shared in any case, the others have to be dedicated
        assert asked.fallback is None
        return
    assert asked.fallback is not None
    assert asked.fallback.resources == {"VCPU": 4, **rest}
    assert asked.fallback.required == asked.fallback.forbidden == frozenset()


@pytest.mark.parametrize(
    "extra_specs",
    [{}, {"hw:cpu_policy": "shared"}, {"resources:PCPU": "2"}],
)
def test_there_is_no_second_query_without_a_policy_that_pins(extra_specs: dict[str, str]) -> None:
    assert ask(extra_specs).fallback is None


@pytest.mark.parametrize(
    ("extra_specs", "properties", "resources", "traits"),
    [
        ({"os:secure_boot": "required"}, {}, {}, {"COMPUTE_SECURITY_UEFI_SECURE_BOOT"}),
        ({}, {"os_secure_boot": "required"}, {}, {"COMPUTE_SECURITY_UEFI_SECURE_BOOT"}),
        ({"os:secure_boot": "optional"}, {}, {}, set()),
        ({"hw:mem_encryption": "true"}, {}, {"MEM_ENCRYPTION_CONTEXT": 1}, {"HW_CPU_X86_AMD_SEV"}),
        (
            {"hw:mem_encryption_model": "amd-sev-es"},
            {"hw_mem_encryption": "true"},
            {"MEM_ENCRYPTION_CONTEXT": 1},
            {"HW_CPU_X86_AMD_SEV_ES"},
        ),
        (
            {"hw:pmem": "4GB, 4GB,SMALL"},
            {},
            {"CUSTOM_PMEM_NAMESPACE_4GB": 2, "CUSTOM_PMEM_NAMESPACE_SMALL": 1},
            set(),
        ),
        ({"hw:tpm_version": "2.0"}, {}, {}, {"COMPUTE_SECURITY_TPM_2_0", "COMPUTE_SECURITY_TPM_TIS"}),
        (
            {"hw:tpm_version": "1.2"},
            {"hw_tpm_model": "tpm-crb"},
            {},
            {"COMPUTE_SECURITY_TPM_1_2", "COMPUTE_SECURITY_TPM_CRB"},
        ),
        ({"hw:tpm_model": "tpm-crb"}, {}, {}, set()),
        ({"hw:pci_numa_affinity_policy": "socket"}, {}, {}, {"COMPUTE_SOCKET_PCI_NUMA_AFFINITY"}),
        ({"hw:pci_numa_affinity_policy": "legacy"}, {}, {}, set()),
        ({"hw:maxphysaddr_mode": "passthrough"}, {}, {}, {"COMPUTE_ADDRESS_SPACE_PASSTHROUGH"}),
        ({"hw:maxphysaddr_mode": "emulate"}, {}, {}, {"COMPUTE_ADDRESS_SPACE_EMULATED"}),
        (
            {},
            {"hw_firmware_stateless": "true", "hw_firmware_type": "uefi"},
            {},
            {"COMPUTE_SECURITY_STATELESS_FIRMWARE"},
        ),
        ({}, {"hw_firmware_stateless": "true", "hw_firmware_type": "bios"}, {}, set()),
        ({"hw:firmware_stateless": "true"}, {"hw_firmware_type": "uefi"}, {}, set()),
        ({"hw:pmem": "gold,fast-1"}, {}, {"CUSTOM_PMEM_NAMESPACE_GOLD": 1, "CUSTOM_PMEM_NAMESPACE_FAST_1": 1}, set()),
        ({"trait:custom_lower": "required"}, {}, {}, {"custom_lower"}),
        ({"trait:custom_lower": "forbidden"}, {}, {}, {"custom_lower"}),
        ({"resources:NOSUCH": "1", "resources:CUSTOM_GOLD": "+2"}, {}, {"CUSTOM_GOLD": 2}, set()),
    ],
)
def test_features_become_resources_and_traits(
    extra_specs: dict[str, str], properties: dict[str, str], resources: dict[str, int], traits: set[str]
) -> None:
    asked = ask(extra_specs, properties)
    assert asked.resources == {**BASE, **resources}
    assert asked.required == traits


ODD = st.sampled_from(
    (
        "",
        " ",
        "0",
        "1",
        "-1",
        "9" * 255,
        "²",
        "٣",
        "true",
        "isolate",
        "dedicated",
        "mixed",
        "required",
        "socket",
        "^",
        "0-",
        "1,^0",
        "a,b",
    )
) | st.text(max_size=5)
OPTIONS = (
    "cpu_policy", "cpu_thread_policy", "cpu_dedicated_mask", "cpu_realtime_mask", "emulator_threads_policy", "pmem",
    "mem_encryption", "mem_encryption_model", "tpm_version", "tpm_model", "maxphysaddr_mode", "firmware_stateless",
    "pci_numa_affinity_policy", "vif_model", "disk_bus",
)  # fmt: skip
KEYS = (
    "resources:VCPU", "resources:PCPU", "resources1:VGPU", "resources_x:VGPU", "trait:CUSTOM_A", "trait1:CUSTOM_A",
    "group_policy", "os:secure_boot", *(f"hw:{name}" for name in OPTIONS),
)  # fmt: skip
HOSTS = table(host("a"), host("b", inventories=(*INVENTORIES, Inventory("VGPU", 2), Inventory("PCPU", 2))))
ENGINE = Engine(
    configured_request_filters(
        SchedulerConfig(image_metadata_prefilter=True, query_placement_for_image_type_support=True)
    )
)


@given(
    st.dictionaries(st.sampled_from(KEYS), ODD, max_size=8),
    st.dictionaries(st.sampled_from([f"hw_{name}" for name in OPTIONS]), ODD, max_size=4),
    st.integers(1, 8),
)
@settings(max_examples=300, deadline=None)
def test_odd_values_never_break_a_decision(extra_specs: dict[str, str], properties: dict[str, str], vcpus: int) -> None:
    spec = with_resources(request(properties=properties, flavor=flavor(extra_specs, vcpus=vcpus)))
    for ranked in ENGINE.decide(HOSTS, spec, limit=9).ranked:
        (given_by,) = ENGINE.allocations(HOSTS, spec, ranked.row)
        assert given_by == ranked.host
