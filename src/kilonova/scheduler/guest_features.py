# SPDX-License-Identifier: Apache-2.0
"""What the features of a guest need of a host: firmware, TPM, special memory, addresses, pinned CPUs."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from kilonova.model.flavor import Flavor
from kilonova.model.image import Image
from kilonova.scheduler.guest_options import guest_option, is_set

_HYPERTHREADING = "HW_CPU_HYPERTHREADING"
_TPM_VERSIONS: Mapping[str, str] = {"1.2": "COMPUTE_SECURITY_TPM_1_2", "2.0": "COMPUTE_SECURITY_TPM_2_0"}
_TPM_MODELS: Mapping[str, str] = {"tpm-tis": "COMPUTE_SECURITY_TPM_TIS", "tpm-crb": "COMPUTE_SECURITY_TPM_CRB"}
_ENCRYPTION_MODELS: Mapping[str, str] = {"amd-sev": "HW_CPU_X86_AMD_SEV", "amd-sev-es": "HW_CPU_X86_AMD_SEV_ES"}
_ADDRESS_MODES: Mapping[str, str] = {
    "passthrough": "COMPUTE_ADDRESS_SPACE_PASSTHROUGH",
    "emulate": "COMPUTE_ADDRESS_SPACE_EMULATED",
}


@dataclass(frozen=True, slots=True)
class Needs:
    """Resources and traits beside the flavor's amounts."""

    resources: Mapping[str, int] = field(default_factory=dict)
    required: frozenset[str] = frozenset()
    forbidden: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Pinning:
    """CPUs a guest has for itself and shares, and what its threads ask of the host. Units: CPUs."""

    dedicated: int
    shared: int
    required: frozenset[str] = frozenset()
    forbidden: frozenset[str] = frozenset()


def feature_needs(flavor: Flavor, image: Image | None) -> Needs:
    """Return what the features that flavor or image ask for need. Source: spec SCHEDULER §7."""
    traits: set[str | None] = set()
    resources: Counter[str] = Counter()
    if guest_option(flavor, image, "secure_boot", prefix="os") == "required":
        traits.add("COMPUTE_SECURITY_UEFI_SECURE_BOOT")
    if is_set(flavor, image, "mem_encryption"):
        resources["MEM_ENCRYPTION_CONTEXT"] = 1
        traits.add(_ENCRYPTION_MODELS.get(guest_option(flavor, image, "mem_encryption_model") or "amd-sev"))
    for label in filter(None, map(str.strip, flavor.extra_specs.get("hw:pmem", "").split(","))):
        resources[f"CUSTOM_PMEM_NAMESPACE_{label}"] += 1
    if wants_tpm(flavor, image):
        traits.add(_TPM_VERSIONS.get(guest_option(flavor, image, "tpm_version") or ""))
        traits.add(_TPM_MODELS.get(guest_option(flavor, image, "tpm_model") or "tpm-tis"))
    if guest_option(flavor, image, "pci_numa_affinity_policy") == "socket":
        traits.add("COMPUTE_SOCKET_PCI_NUMA_AFFINITY")
    traits.add(_ADDRESS_MODES.get(guest_option(flavor, image, "maxphysaddr_mode") or ""))
    if is_set(flavor, image, "firmware_stateless"):
        traits.add("COMPUTE_SECURITY_STATELESS_FIRMWARE")
    return Needs(resources, frozenset(trait for trait in traits if trait is not None))


def wants_tpm(flavor: Flavor, image: Image | None) -> bool:
    """Tell whether flavor or image ask for a TPM."""
    return guest_option(flavor, image, "tpm_version") is not None


def cpu_pinning(flavor: Flavor, image: Image | None) -> Pinning | None:
    """Return how a CPU policy splits the flavor's CPUs, None when none are pinned.

    ``hw:emulator_threads_policy`` ``isolate`` takes one CPU more for the emulator.

    Source: spec SCHEDULER §7, hw:cpu_policy.
    """
    policy = guest_option(flavor, image, "cpu_policy")
    if policy == "dedicated":
        dedicated = flavor.vcpus
    elif policy == "mixed":
        specs = flavor.extra_specs
        mask = specs.get("hw:cpu_dedicated_mask") or specs.get("hw:cpu_realtime_mask") or ""
        dedicated = len(cpus_of_mask(mask, flavor.vcpus))
    else:
        return None
    threads = guest_option(flavor, image, "cpu_thread_policy")
    isolated = flavor.extra_specs.get("hw:emulator_threads_policy", "").lower() == "isolate"
    return Pinning(
        dedicated + isolated,
        flavor.vcpus - dedicated,
        required=frozenset({_HYPERTHREADING} if threads == "require" else ()),
        forbidden=frozenset({_HYPERTHREADING} if threads == "isolate" else ()),
    )


def cpus_of_mask(mask: str, vcpus: int) -> frozenset[int]:
    """Return the CPUs that a mask like ``0-3,^1`` names; one of exclusions only means all the others.

    A mask that cannot be read names none.
    """
    chosen: set[int] = set()
    left_out: set[int] = set()
    for part in filter(None, map(str.strip, mask.split(","))):
        first, dash, last = part.removeprefix("^").partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()):
            return frozenset()
        span = range(int(first), min(int(last or first), vcpus - 1) + 1)
        (left_out if part.startswith("^") else chosen).update(span)
    if left_out and not chosen:
        chosen = set(range(vcpus))
    return frozenset(cpu for cpu in chosen - left_out if cpu < vcpus)
