# SPDX-License-Identifier: Apache-2.0
from typing import Any

import pytest
from tests.unit.scheduler.small_cloud import flavor

from kilonova.errors import InvalidRequest
from kilonova.model.image import Image
from kilonova.scheduler.guest_features import cpu_pinning, feature_needs, require_possible, thread_needs

UEFI = {"hw_firmware_type": "uefi"}


def image(**properties: Any) -> Image:
    return Image("i", properties=properties)


def test_persistent_memory_becomes_a_class_for_each_label() -> None:
    needs = feature_needs(flavor({"hw:pmem": "6GB, small-1 ,6GB,"}), None)
    assert needs.resources == {"CUSTOM_PMEM_NAMESPACE_6GB": 2, "CUSTOM_PMEM_NAMESPACE_SMALL_1": 1}


def test_stateless_firmware_counts_only_with_uefi() -> None:
    assert feature_needs(flavor(), image(hw_firmware_stateless="true")).required == frozenset()
    needs = feature_needs(flavor(), image(hw_firmware_stateless="true", **UEFI))
    assert needs.required == {"COMPUTE_SECURITY_STATELESS_FIRMWARE"}


@pytest.mark.parametrize(
    ("policy", "required", "forbidden"), [("require", 1, 0), ("isolate", 0, 1), ("prefer", 0, 0), ("", 0, 0)]
)
def test_a_thread_policy_requires_or_forbids_hyperthreads(policy: str, required: int, forbidden: int) -> None:
    needs = thread_needs(flavor({"hw:cpu_thread_policy": policy}), None)
    assert (len(needs.required), len(needs.forbidden)) == (required, forbidden)


@pytest.mark.parametrize(
    ("specs", "properties", "named"),
    [
        ({}, {"hw_disk_bus": "scsi2"}, "hw_disk_bus=scsi2"),
        ({"hw:mem_encryption": "true"}, {"hw_mem_encryption": "false", **UEFI}, "hw:mem_encryption"),
        ({"hw:tpm_version": "2.0"}, {"hw_tpm_version": "1.2"}, "hw_tpm_version"),
        ({"hw:tpm_version": "1.2", "hw:tpm_model": "tpm-crb"}, {}, "2.0"),
        ({"hw:sound_model": "kazoo"}, {}, "kazoo"),
        ({"hw:mem_encryption": "true"}, {}, "hw_firmware_type=uefi"),
        ({"hw:mem_encryption": "true"}, {"hw_machine_type": "pc-i440fx", **UEFI}, "q35"),
        ({"hw:mem_encryption": "true", "hw:mem_encryption_model": "amd-sev-snp"}, UEFI, "hw_firmware_stateless"),
        ({"hw:ephemeral_encryption": "true", "hw:ephemeral_encryption_format": "rot13"}, {}, "rot13"),
    ],
)
def test_an_impossible_guest_is_refused(specs: dict[str, str], properties: dict[str, str], named: str) -> None:
    with pytest.raises(InvalidRequest, match=named):
        require_possible(flavor(specs), image(**properties))


@pytest.mark.parametrize(
    ("specs", "properties"),
    [
        ({}, {}),
        ({"hw:mem_encryption": "yes"}, {"hw_mem_encryption": "1", "hw_machine_type": "pc-q35-6.2", **UEFI}),
        ({"hw:tpm_version": "2.0", "hw:tpm_model": "tpm-crb"}, {"hw_tpm_version": "2.0"}),
        ({"hw:ephemeral_encryption_format": "rot13"}, {}),
    ],
)
def test_a_possible_guest_passes(specs: dict[str, str], properties: dict[str, str]) -> None:
    require_possible(flavor(specs), image(**properties))


def test_a_cpu_policy_splits_the_cpus() -> None:
    dedicated = cpu_pinning(flavor({"hw:cpu_policy": "dedicated"}, vcpus=4), None)
    assert dedicated is not None
    assert (dedicated.dedicated, dedicated.shared, dedicated.everything) == (4, 0, True)
    isolated = {"hw:emulator_threads_policy": "isolate"}
    mixed = cpu_pinning(flavor({"hw:cpu_policy": "mixed", "hw:cpu_dedicated_mask": "^0", **isolated}, vcpus=4), None)
    assert mixed is not None
    assert (mixed.dedicated, mixed.shared, mixed.everything) == (4, 1, False)
    assert cpu_pinning(flavor({"hw:cpu_policy": "shared"}), None) is None
