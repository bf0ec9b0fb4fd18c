# SPDX-License-Identifier: Apache-2.0
"""Resources and traits that guest features require: firmware, TPM, encrypted memory, address size, pinned CPUs.

:func:`require_possible` rejects contradictions between flavor and image, and invalid values, when a server is created.
The other functions ignore invalid values.
"""

import re
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import field

from kilonova.errors import InvalidRequest
from kilonova.model.flavor import Flavor
from kilonova.model.image import Image
from kilonova.model.image_properties import image_property
from kilonova.model.image_values import impossible_value
from kilonova.records import dataclass
from kilonova.scheduler.guest_options import guest_option, guest_option_reads, is_set, is_true
from kilonova.scheduler.numa_request import numa_request
from kilonova.scheduler.reads import Reads, names

_HYPERTHREADING = "HW_CPU_HYPERTHREADING"
_TPM_VERSIONS: Mapping[str, str] = {"1.2": "COMPUTE_SECURITY_TPM_1_2", "2.0": "COMPUTE_SECURITY_TPM_2_0"}
_TPM_MODELS: Mapping[str, str] = {"tpm-tis": "COMPUTE_SECURITY_TPM_TIS", "tpm-crb": "COMPUTE_SECURITY_TPM_CRB"}
_DEFAULT_TPM_MODEL = "tpm-tis"
_ENCRYPTION_MODELS: Mapping[str, str] = {
    "amd-sev": "HW_CPU_X86_AMD_SEV",
    "amd-sev-es": "HW_CPU_X86_AMD_SEV_ES",
    "amd-sev-snp": "HW_CPU_X86_AMD_SEV_SNP",
    "intel-tdx": "HW_CPU_X86_INTEL_TDX",
}
_DEFAULT_ENCRYPTION_MODEL = "amd-sev"
_WITH_STATELESS_FIRMWARE = frozenset({"amd-sev-snp", "intel-tdx"})
_WITHOUT_VIDEO = frozenset({"intel-tdx"})
_ADDRESS_MODES: Mapping[str, str] = {
    "passthrough": "COMPUTE_ADDRESS_SPACE_PASSTHROUGH",
    "emulate": "COMPUTE_ADDRESS_SPACE_EMULATED",
}
_IMPLYING = ("mem_encryption", "mem_encryption_model", "tpm_version", "tpm_model", "pci_numa_affinity_policy")
#: Extra specs and image properties that imply a required trait.
IMPLYING_SPECS = (
    *(f"hw:{name}" for name in (*_IMPLYING, "maxphysaddr_mode", "cpu_thread_policy")),
    "os:secure_boot",
)
IMPLYING_PROPERTIES = (
    *(f"hw_{name}" for name in (*_IMPLYING, "maxphysaddr_mode", "cpu_thread_policy")),
    *("hw_firmware_stateless", "hw_firmware_type", "os_secure_boot"),
)
_ODD_CHARACTERS = re.compile("[^0-9A-Za-z]+")
SOUND_MODELS = ("sb16", "es1370", "pcspk", "ac97", "ich6", "ich9", "usb", "virtio")
SECURE_BOOT = ("required", "disabled", "optional")
ENCRYPTION_FORMATS = ("plain", "luks", "luksv2")
#: The extra specs and image properties from which this module derives resources and traits.
FEATURE_READS = (
    guest_option_reads(*_IMPLYING, "maxphysaddr_mode", "cpu_thread_policy", "cpu_policy")
    | guest_option_reads("secure_boot", prefix="os")
    | Reads(
        extra_specs=names("hw:pmem", "hw:emulator_threads_policy"),
        properties=names("hw_firmware_stateless", "hw_firmware_type"),
    )
)
_AGREED = ("mem_encryption", "ephemeral_encryption", "virtio_packed_ring")
"""Options that a flavor and an image must set to the same value if both set them."""


@dataclass(frozen=True, slots=True)
class Needs:
    """Resources and traits that are required in addition to the flavor's vCPUs, memory and disk."""

    resources: Mapping[str, int] = field(default_factory=dict)
    required: frozenset[str] = frozenset()
    forbidden: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Pinning:
    """Number of dedicated and shared CPUs of a guest with pinned CPUs.

    ``everything``: True if all CPUs are dedicated. Then a host without PCPU inventory may provide VCPU instead.
    """

    dedicated: int
    shared: int
    everything: bool


def feature_needs(flavor: Flavor, image: Image | None) -> Needs:
    """Return the resources and traits of the features that flavor or image request. Source: spec SCHEDULER §7."""
    traits: set[str | None] = set()
    resources: Counter[str] = Counter()
    if guest_option(flavor, image, "secure_boot", prefix="os") == "required":
        traits.add("COMPUTE_SECURITY_UEFI_SECURE_BOOT")
    if is_set(flavor, image, "mem_encryption"):
        resources["MEM_ENCRYPTION_CONTEXT"] = 1
        model = guest_option(flavor, image, "mem_encryption_model") or _DEFAULT_ENCRYPTION_MODEL
        traits.add(_ENCRYPTION_MODELS.get(model))
    for label in filter(None, map(str.strip, flavor.extra_specs.get("hw:pmem", "").split(","))):
        resources[_custom_class(f"PMEM_NAMESPACE_{label}")] += 1
    if wants_tpm(flavor, image):
        traits.add(_TPM_VERSIONS.get(guest_option(flavor, image, "tpm_version") or ""))
        traits.add(_TPM_MODELS.get(guest_option(flavor, image, "tpm_model") or _DEFAULT_TPM_MODEL))
    if guest_option(flavor, image, "pci_numa_affinity_policy") == "socket":
        traits.add("COMPUTE_SOCKET_PCI_NUMA_AFFINITY")
    traits.add(_ADDRESS_MODES.get(guest_option(flavor, image, "maxphysaddr_mode") or ""))
    if _has_stateless_firmware(image):
        traits.add("COMPUTE_SECURITY_STATELESS_FIRMWARE")
    return Needs(resources, frozenset(trait for trait in traits if trait is not None))


def thread_needs(flavor: Flavor, image: Image | None) -> Needs:
    """Return the hyper-threading trait that ``hw:cpu_thread_policy`` requires or forbids."""
    policy = guest_option(flavor, image, "cpu_thread_policy")
    if policy == "require":
        return Needs(required=frozenset({_HYPERTHREADING}))
    return Needs(forbidden=frozenset({_HYPERTHREADING})) if policy == "isolate" else Needs()


def _custom_class(name: str) -> str:
    return "CUSTOM_" + _ODD_CHARACTERS.sub("_", name).upper()


def _has_stateless_firmware(image: Image | None) -> bool:
    """Tell whether the image requests stateless firmware, which exists for UEFI only and cannot be set by a flavor."""
    return is_true(image_property(image, "hw_firmware_stateless")) and (
        image_property(image, "hw_firmware_type") == "uefi"
    )


def wants_tpm(flavor: Flavor, image: Image | None) -> bool:
    """Tell whether the flavor or the image requests a TPM."""
    return guest_option(flavor, image, "tpm_version") is not None


def require_possible(flavor: Flavor, image: Image | None) -> None:
    """Raise InvalidRequest for invalid option values and for contradictions between flavor and image."""
    if image is not None and (wrong := impossible_value(image.properties)) is not None:
        raise InvalidRequest(f"Invalid image metadata. {wrong}", field="imageRef")
    for name in _AGREED:
        of_flavor, of_image = _both(flavor, image, name)
        if of_flavor is not None and of_image is not None and is_true(of_flavor) != is_true(of_image):
            raise InvalidRequest(f"The flavor's hw:{name} contradicts the image's hw_{name}.")
    _one_of(flavor, image, "secure_boot", SECURE_BOOT, prefix="os")
    _one_of(flavor, image, "maxphysaddr_mode", _ADDRESS_MODES)
    _one_of(flavor, image, "sound_model", SOUND_MODELS)
    if is_set(flavor, image, "ephemeral_encryption"):
        _one_of(flavor, image, "ephemeral_encryption_format", ENCRYPTION_FORMATS)
    version = _one_of(flavor, image, "tpm_version", _TPM_VERSIONS)
    if version is not None and _one_of(flavor, image, "tpm_model", _TPM_MODELS) == "tpm-crb" and version != "2.0":
        raise InvalidRequest("The TPM model tpm-crb requires TPM version 2.0.")
    if is_set(flavor, image, "mem_encryption"):
        _require_encryptable(image, _one_of(flavor, image, "mem_encryption_model", _ENCRYPTION_MODELS))


def _require_encryptable(image: Image | None, model: str | None) -> None:
    """Raise InvalidRequest unless the image's firmware, machine type and video model allow memory encryption."""
    model = model or _DEFAULT_ENCRYPTION_MODEL
    if image_property(image, "hw_firmware_type") != "uefi":
        raise InvalidRequest("Memory encryption needs an image with hw_firmware_type=uefi.")
    machine = image_property(image, "hw_machine_type")
    if machine is not None and "q35" not in machine:
        raise InvalidRequest(f"Memory encryption needs a q35 machine; the image has hw_machine_type={machine}.")
    if model in _WITH_STATELESS_FIRMWARE and not _has_stateless_firmware(image):
        raise InvalidRequest(f"Memory encryption {model} needs an image with hw_firmware_stateless=true.")
    if model in _WITHOUT_VIDEO and image_property(image, "hw_video_model") != "none":
        raise InvalidRequest(f"Memory encryption {model} needs an image with hw_video_model=none.")


def _both(flavor: Flavor, image: Image | None, name: str, prefix: str = "hw") -> tuple[str | None, str | None]:
    of_image = None if image is None else image.properties.get(f"{prefix}_{name}")
    return flavor.extra_specs.get(f"{prefix}:{name}"), None if of_image is None else str(of_image)


def _one_of(
    flavor: Flavor, image: Image | None, name: str, values: Collection[str], *, prefix: str = "hw"
) -> str | None:
    """Return the value of an option; flavor and image must not contradict each other.

    Raises: InvalidRequest, for a contradiction or a value that is not one of ``values``.
    """
    of_flavor, of_image = _both(flavor, image, name, prefix)
    if of_flavor and of_image and of_flavor != of_image:
        raise InvalidRequest(
            f"The flavor's {prefix}:{name} '{of_flavor}' contradicts the image's {prefix}_{name} '{of_image}'."
        )
    value = of_flavor or of_image
    if value is not None and value not in values:
        raise InvalidRequest(f"{prefix}:{name} must be one of {', '.join(values)}, not '{value}'.")
    return value


def cpu_pinning(flavor: Flavor, image: Image | None) -> Pinning | None:
    """Return the numbers of dedicated and shared CPUs that the CPU policy implies, or None if no CPUs are pinned.

    ``hw:emulator_threads_policy`` ``isolate`` adds one dedicated CPU for the emulator.

    Source: spec SCHEDULER §7, hw:cpu_policy.
    """
    policy = guest_option(flavor, image, "cpu_policy")
    if policy == "dedicated":
        dedicated = flavor.vcpus
    elif policy == "mixed":
        dedicated = _dedicated_of_mixed(flavor, image)
    else:
        return None
    isolated = flavor.extra_specs.get("hw:emulator_threads_policy") == "isolate"
    return Pinning(dedicated + isolated, flavor.vcpus - dedicated, everything=policy == "dedicated")


def _dedicated_of_mixed(flavor: Flavor, image: Image | None) -> int:
    try:
        cells = numa_request(flavor, image)
    except InvalidRequest:  # the API rejects this request earlier, except in a dry run, where all CPUs count as shared
        return 0
    return sum(len(cell.pcpuset) for cell in cells.cells) if cells is not None else 0
