# SPDX-License-Identifier: Apache-2.0
"""Validator of image properties: a server request is refused if its image has an invalid property value.

Only properties for which Nova defines a type are checked. Properties of NUMA cells are checked by the code that
builds the cells.

Source: Nova's reference of image properties; spec TRAITS §2.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any

from kilonova.model.image_properties import canonical_architecture, canonical_value, present_name

_ARCHITECTURES = (
    *("alpha", "armv6", "armv7l", "armv7b", "aarch64", "cris", "i686", "ia64", "lm32", "m68k", "microblaze"),
    *("microblazeel", "mips", "mipsel", "mips64", "mips64el", "openrisc", "parisc", "parisc64", "ppc", "ppcle"),
    *("ppc64", "ppc64le", "ppcemb", "s390", "s390x", "sh4", "sh4eb", "sparc", "sparc64", "unicore32", "x86_64"),
    *("xtensa", "xtensaeb"),
)
_DISK_BUSES = ("fdc", "ide", "sata", "scsi", "usb", "virtio", "xen", "lxc", "uml")
_ENUMERATIONS: Mapping[str, tuple[str, ...]] = {
    "hw_architecture": _ARCHITECTURES,
    "hw_cdrom_bus": _DISK_BUSES,
    "hw_cpu_policy": ("dedicated", "shared", "mixed"),
    "hw_cpu_thread_policy": ("prefer", "isolate", "require"),
    "hw_disk_bus": _DISK_BUSES,
    "hw_emulation_architecture": (*_ARCHITECTURES, "riscv64"),
    "hw_ephemeral_encryption_format": ("plain", "luks", "luksv2"),
    "hw_firmware_type": ("uefi", "bios"),
    "hw_floppy_bus": _DISK_BUSES,
    "hw_input_bus": ("usb", "virtio"),
    "hw_maxphysaddr_mode": ("passthrough", "emulate"),
    "hw_mem_encryption_model": ("amd-sev", "amd-sev-es", "amd-sev-snp", "intel-tdx"),
    "hw_pci_numa_affinity_policy": ("required", "legacy", "preferred", "socket"),
    "hw_pointer_model": ("usbtablet",),
    "hw_rescue_bus": _DISK_BUSES,
    "hw_rescue_device": ("cdrom", "disk", "floppy", "fs", "lun"),
    "hw_rng_model": ("virtio",),
    "hw_scsi_model": ("buslogic", "ibmvscsi", "lsilogic", "lsisas1068", "lsisas1078", "virtio-scsi", "vmpvscsi"),
    "hw_sound_model": ("sb16", "es1370", "pcspk", "ac97", "ich6", "ich9", "usb", "virtio"),
    "hw_tpm_model": ("tpm-tis", "tpm-crb"),
    "hw_tpm_version": ("1.2", "2.0"),
    "hw_usb_model": ("none", "nec-xhci", "qemu-xhci"),
    "hw_video_model": ("cirrus", "qxl", "vga", "vmvga", "xen", "virtio", "gop", "none", "bochs"),
    "hw_vif_model": (
        *("virtio", "ne2k_pci", "pcnet", "rtl8139", "e1000", "e1000e", "netfront", "spapr-vlan", "lan9118", "sriov"),
        *("vmxnet", "vmxnet3", "igb"),
    ),
    "hw_viommu_model": ("intel", "smmuv3", "virtio", "auto"),
    "hw_vm_mode": ("hvm", "xen", "uml", "exe"),
    "hw_watchdog_action": ("none", "pause", "poweroff", "reset", "disabled"),
    "img_config_drive": ("optional", "mandatory"),
    "img_hv_type": (
        *("baremetal", "bhyve", "docker", "fake", "hyperv", "ironic", "kqemu", "kvm", "lxc", "lxd", "openvz"),
        *("parallels", "phyp", "qemu", "test", "uml", "vbox", "vz", "vmware", "xen", "zvm", "prsm"),
    ),
    "os_secure_boot": ("required", "disabled", "optional"),
    "os_type": ("linux", "windows"),
}
_INTEGERS = frozenset(
    {
        *("hw_cpu_cores", "hw_cpu_max_cores", "hw_cpu_max_sockets", "hw_cpu_max_threads", "hw_cpu_sockets"),
        *("hw_cpu_threads", "hw_device_id", "hw_maxphysaddr_bits", "hw_redirected_usb_ports"),
        *("hw_serial_port_count", "hw_video_ram", "img_compression_level", "img_version"),
    }
)
_INTEGER = re.compile(r"\s*[+-]?\d{1,18}\s*")
_VERSIONS = re.compile(r"\s*(<=|>=|<|>|!=|==)\s*[^\s,]+\s*")
_ADAPTER = "vmware_adaptertype"
#: Former spelling of a SCSI model → current spelling.
_SCSI_MODELS: Mapping[str, str] = {"lsilogicsas": "lsisas1068", "paravirtual": "vmpvscsi"}
_VIF_MODELS: Mapping[str, str] = {
    "virtuale1000": "e1000",
    "virtuale1000e": "e1000e",
    "virtualpcnet32": "pcnet",
    "virtualsriovethernetcard": "sriov",
    "virtualvmxnet": "vmxnet",
    "virtualvmxnet3": "vmxnet3",
}


def canonical_vif_model(value: str) -> str:
    """Return the current spelling of a network card model. VMware's model names are converted, too."""
    return _VIF_MODELS.get(value.lower(), value.lower())


def _canonical_scsi_model(value: str) -> str:
    return _SCSI_MODELS.get(value.lower(), value.lower())


_SPELLINGS: Mapping[str, Callable[[str], str]] = {
    "hw_emulation_architecture": canonical_architecture,
    "hw_scsi_model": _canonical_scsi_model,
    "hw_vif_model": canonical_vif_model,
    "os_type": str.lower,
}


def impossible_value(properties: Mapping[str, Any]) -> str | None:
    """Return an error text with the first invalid property and its valid values; None if all properties are valid."""
    for given, value in properties.items():
        name = "hw_scsi_model" if given == _ADAPTER and value not in {"", "ide"} else present_name(given)
        if (expected := _expected(name, str(value))) is not None:
            return f"{given}={value}: expected {expected}."
    return None


def _expected(name: str, value: str) -> str | None:
    """Return a description of the valid values of property ``name`` if ``value`` is invalid; None if it is valid."""
    if name in _INTEGERS:
        return None if _INTEGER.fullmatch(value) else "a whole number"
    if name == "img_hv_requested_version":
        good = all(_VERSIONS.fullmatch(part) for part in value.split(","))
        return None if good else "versions such as '>=6.0, <7.0'"
    known = _ENUMERATIONS.get(name)
    spelling = _SPELLINGS.get(name)
    spelled = canonical_value(name, value) if spelling is None else spelling(value)
    return None if known is None or spelled in known else f"one of {', '.join(known)}"
