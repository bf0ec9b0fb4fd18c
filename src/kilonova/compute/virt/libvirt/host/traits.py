# SPDX-License-Identifier: Apache-2.0
"""Standard traits of a libvirt host, for the features that the driver supports.

If a COMPUTE_ or HW_ trait is no longer reported, it is removed from the host's resource provider. The traits of
volumes, accelerators, shares and encrypted disks are never reported, since the driver does not support them.
"""

from collections.abc import Collection, Iterator, Mapping

from kilonova.compute.virt.libvirt.host.capabilities import HostCapabilities
from kilonova.compute.virt.libvirt.host.cpu_traits import cpu_traits
from kilonova.compute.virt.libvirt.host.models import supported_models
from kilonova.config.libvirt import LibvirtSettings
from kilonova.model.device_models import DEVICE_FAMILIES, STANDARD_TRAITS

#: Image property → prefix of the traits of its values. The scheduler translates the properties in DEVICE_FAMILIES to
#: traits, too.
_FAMILIES: Mapping[str, str] = {
    **DEVICE_FAMILIES,
    "hw_architecture": "COMPUTE_ARCH_",
    "hw_sound_model": "COMPUTE_SOUND_MODEL_",
    "hw_usb_model": "COMPUTE_USB_MODEL_",
}
#: (Image property, value) → trait, for properties of which only some values have a trait.
_SINGLE: Mapping[tuple[str, str], str] = {
    ("hw_firmware_stateless", "true"): "COMPUTE_SECURITY_STATELESS_FIRMWARE",
    ("hw_maxphysaddr_mode", "emulate"): "COMPUTE_ADDRESS_SPACE_EMULATED",
    ("hw_maxphysaddr_mode", "passthrough"): "COMPUTE_ADDRESS_SPACE_PASSTHROUGH",
    ("hw_tpm_model", "tpm-crb"): "COMPUTE_SECURITY_TPM_CRB",
    ("hw_tpm_model", "tpm-tis"): "COMPUTE_SECURITY_TPM_TIS",
    ("hw_tpm_version", "1.2"): "COMPUTE_SECURITY_TPM_1_2",
    ("hw_tpm_version", "2.0"): "COMPUTE_SECURITY_TPM_2_0",
    ("os_secure_boot", "required"): "COMPUTE_SECURITY_UEFI_SECURE_BOOT",
}
#: First libvirt that reports the serial numbers of network cards, by which remote-managed ports are bound.
_READS_SERIAL_NUMBERS = 7_009_000
#: Disk formats of images from which this driver creates guests.
IMAGE_TYPES = ("ami", "iso", "qcow2", "raw", "vdi", "vhd", "vhdx", "vmdk")


def traits_of(
    host: HostCapabilities, settings: LibvirtSettings, excluded_image_types: Collection[str] = ()
) -> tuple[str, ...]:
    """Return the traits of a host, sorted. ``excluded_image_types``: disk formats whose traits are not reported."""
    found = set(_of_models(supported_models(host, settings)))
    excluded = {name.strip().lower() for name in excluded_image_types}
    found |= {f"COMPUTE_IMAGE_TYPE_{name.upper()}" for name in IMAGE_TYPES if name not in excluded}
    found |= cpu_traits(host.architecture, host.guest_features)
    found |= {f"HW_ARCH_{host.architecture.upper()}", "COMPUTE_NET_ATTACH_INTERFACE", "COMPUTE_NET_VIRTIO_PACKED"}
    if host.libvirt_version >= _READS_SERIAL_NUMBERS:
        found.add("COMPUTE_REMOTE_MANAGED_PORTS")
    if any(len(cpu.siblings) > 1 for cell in host.cells for cpu in cell.cpus) or host.cpu.threads > 1:
        found.add("HW_CPU_HYPERTHREADING")
    if any(cpu.socket is not None for cell in host.cells for cpu in cell.cpus):
        found.add("COMPUTE_SOCKET_PCI_NUMA_AFFINITY")
    return tuple(sorted(found & STANDARD_TRAITS))


def _of_models(models: Mapping[str, frozenset[str]]) -> Iterator[str]:
    for name, values in models.items():
        for value in values:
            if name in _FAMILIES:
                yield _FAMILIES[name] + value.upper().replace("-", "_")
            elif (name, value) in _SINGLE:
                yield _SINGLE[name, value]
