# SPDX-License-Identifier: Apache-2.0
"""Access to image properties by their current or former names, and canonical spellings of their values."""

from collections.abc import Callable, Mapping
from typing import Any

from kilonova.model.image import Image

_LEGACY: Mapping[str, str] = {
    "hw_architecture": "architecture",
    "img_hv_type": "hypervisor_type",
    "hw_vm_mode": "vm_mode",
    "img_hv_requested_version": "hypervisor_version_requires",
    "img_owner_id": "owner_id",
    "hw_disk_type": "vmware_disktype",
    "img_version": "vmware_image_version",
    "os_distro": "vmware_ostype",
    "hw_auto_disk_config": "auto_disk_config",
    "hw_ipxe_boot": "ipxe_boot",
    "hw_device_id": "xenapi_device_id",
    "img_compression_level": "xenapi_image_compression_level",
    "img_linked_clone": "vmware_linked_clone",
    "img_use_agent": "xenapi_use_agent",
    "os_skip_agent_inject_ssh": "xenapi_skip_agent_inject_ssh",
    "os_skip_agent_inject_files_at_boot": "xenapi_skip_agent_inject_files_at_boot",
    "img_cache_in_nova": "cache_in_nova",
    "img_bittorrent": "bittorrent",
    "img_root_device_name": "root_device_name",
}
#: Current names of all image properties that Nova defines, except the numbered properties of NUMA cells.
KNOWN_PROPERTIES = frozenset(
    {
        *_LEGACY,
        *("hw_boot_menu", "hw_cdrom_bus", "hw_cpu_cores", "hw_cpu_max_cores", "hw_cpu_max_sockets"),
        *("hw_cpu_max_threads", "hw_cpu_policy", "hw_cpu_realtime_mask", "hw_cpu_sockets", "hw_cpu_thread_policy"),
        *("hw_cpu_threads", "hw_disk_bus", "hw_emulation_architecture", "hw_ephemeral_encryption"),
        *("hw_ephemeral_encryption_format", "hw_ephemeral_encryption_secret_uuid", "hw_firmware_stateless"),
        *("hw_firmware_type", "hw_floppy_bus", "hw_input_bus", "hw_locked_memory", "hw_machine_type"),
        *("hw_maxphysaddr_bits", "hw_maxphysaddr_mode", "hw_mem_encryption", "hw_mem_encryption_model"),
        *("hw_mem_page_size", "hw_numa_nodes", "hw_pci_numa_affinity_policy", "hw_pmu", "hw_pointer_model"),
        *("hw_qemu_guest_agent", "hw_redirected_usb_ports", "hw_rescue_bus", "hw_rescue_device", "hw_rng_model"),
        *("hw_scsi_model", "hw_serial_port_count", "hw_sound_model", "hw_time_hpet", "hw_tpm_model"),
        *("hw_tpm_version", "hw_usb_model", "hw_video_model", "hw_video_ram", "hw_vif_model"),
        *("hw_vif_multiqueue_enabled", "hw_viommu_model", "hw_virtio_packed_ring", "hw_watchdog_action"),
        *("img_bdm_v2", "img_block_device_mapping", "img_config_drive", "img_hide_hypervisor_id", "img_mappings"),
        *("img_signature", "img_signature_certificate_uuid", "img_signature_hash_method", "img_signature_key_type"),
        *("os_admin_user", "os_command_line", "os_require_quiesce", "os_secure_boot", "os_type", "os_version"),
        *("vmware_adaptertype", "kernel_id", "ramdisk_id", "bdm_v2", "block_device_mapping", "mappings"),
    }
)
#: Properties of rescue images. If an image has one of them, the guest's own disks keep their device names.
RESCUE_PROPERTIES = ("hw_rescue_device", "hw_rescue_bus")
NUMBERED_PROPERTIES = ("hw_numa_cpus.", "hw_numa_mem.")
_PRESENT: Mapping[str, str] = {old: new for new, old in _LEGACY.items()}
_ARCHITECTURES: Mapping[str, str] = {
    "amd64": "x86_64",
    **dict.fromkeys(("i386", "i486", "i586", "x86_32", "x86_32p"), "i686"),
}
_HYPERVISORS: Mapping[str, str] = {"xapi": "xen"}
_VM_MODES: Mapping[str, str] = {"pv": "xen", "hv": "hvm", "baremetal": "hvm"}


def image_property(image: Image | None, name: str) -> str | None:
    """Return the value of a property, stored under its current name ``name`` or under its former name.

    None if the image is None or the property is absent, empty or false.
    """
    return None if image is None else read_property(image.properties, name)


def read_property(properties: Mapping[str, Any], name: str) -> str | None:
    """Return the value of a property, stored under its current name ``name`` or under its former name.

    None if the property is absent, empty or false.
    """
    value = properties.get(name) or properties.get(_LEGACY.get(name, name))
    return str(value) if value else None


def shutdown_timeout_s(properties: Mapping[str, Any]) -> float | None:
    """Return the value of ``os_shutdown_timeout`` in seconds; None if it is absent or not a whole number."""
    said = str(properties.get("os_shutdown_timeout", ""))
    return float(said) if said.isascii() and said.isdigit() else None


def image_property_names(image: Image | None) -> frozenset[str]:
    """Return every property name with which ``image_property`` may find a value in this image."""
    if image is None:
        return frozenset()
    return frozenset(image.properties) | {new for new, old in _LEGACY.items() if old in image.properties}


def present_name(name: str) -> str:
    """Return the current name of a property. ``name``: its current or former name."""
    return _PRESENT.get(name, name)


def canonical_value(name: str, value: str) -> str:
    """Return the canonical spelling of a property's value; ``value`` itself if the property has no spelling rules."""
    canonical = _CANONICAL.get(name)
    return value if canonical is None else canonical(value)


def canonical_architecture(name: str) -> str:
    return _ARCHITECTURES.get(name.lower(), name.lower())


def canonical_hypervisor(name: str) -> str:
    return _HYPERVISORS.get(name.lower(), name.lower())


def canonical_vm_mode(name: str) -> str:
    return _VM_MODES.get(name.lower(), name.lower())


_CANONICAL: Mapping[str, Callable[[str], str]] = {
    "hw_architecture": canonical_architecture,
    "img_hv_type": canonical_hypervisor,
    "hw_vm_mode": canonical_vm_mode,
}
