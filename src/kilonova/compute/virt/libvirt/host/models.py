# SPDX-License-Identifier: Apache-2.0
"""Values of image properties that a host supports. The host's traits and ``late_check`` are derived from them."""

from collections.abc import Mapping

from kilonova.compute.virt.libvirt.host.capabilities import HostCapabilities, MachineType
from kilonova.compute.virt.libvirt.host.device_types import models_of
from kilonova.config.libvirt import LibvirtSettings

#: Minimum versions (libvirt, QEMU) for igb network cards, and for virtio sound cards.
_IGB = (9_003_000, 8_000_000)
_VIRTIO_SOUND = (10_004_000, 8_002_000)
#: From this version of QEMU on, libvirt cannot create a PC speaker.
_NO_SPEAKER = 7_001_000
_VIRTIO_IOMMU = 8_003_000
_STATELESS_FIRMWARE = 8_006_000
_ADDRESS_SPACE = 8_007_000
_TPM_VERSIONS = frozenset({"1.2", "2.0"})
#: x86 architectures, and prefixes of the x86 machine types that guests of users may have. All other x86 machine types
#: are for special purposes.
_X86 = ("x86_64", "i686")
_PC_BOARDS = ("pc", "q35")
#: Architecture of a host → further guest architectures that the host's CPUs run natively.
_ALSO_RUNS = {"x86_64": frozenset({"i686"})}
#: Parts of the names of machine types that support an IOMMU.
_WITH_IOMMU = ("q35", "virt")


def supported_models(host: HostCapabilities, settings: LibvirtSettings) -> Mapping[str, frozenset[str]]:
    """Return image property → values that at least one machine type of the host supports.

    Image properties that are missing in the result are not checked.
    """
    boards = [board for board in host.boards if is_for_guests(board, host)]
    buses = frozenset[str]().union(*(board.disk_buses for board in boards))
    firmware = frozenset[str]().union(*(board.firmware for board in boards))
    tpm = _tpms(boards) if settings.swtpm_enabled else {}
    return {
        "hw_architecture": guest_architectures(host),
        "hw_emulation_architecture": guest_architectures(host),
        "img_hv_type": hypervisor_types(host),
        "hw_vm_mode": frozenset({"hvm"}),
        "hw_vif_model": _network_cards(host),
        "hw_video_model": frozenset[str]().union(*(board.video_models for board in boards)),
        "hw_disk_bus": buses,
        "hw_cdrom_bus": buses,
        "hw_scsi_model": models_of("hw_scsi_model", host.device_types),
        "hw_usb_model": models_of("hw_usb_model", host.device_types) | {"none"},
        "hw_input_bus": models_of("hw_input_bus", host.device_types),
        "hw_sound_model": models_of("hw_sound_model", host.device_types) - unusable_sound_cards(host),
        "hw_viommu_model": _iommus(host, boards),
        "hw_rng_model": frozenset({"virtio"}) & frozenset[str]().union(*(board.rng_models for board in boards)),
        "hw_watchdog_action": _watchdog_actions(host),
        "hw_tpm_model": tpm.get("hw_tpm_model", frozenset()),
        "hw_tpm_version": tpm.get("hw_tpm_version", frozenset()),
        "hw_firmware_type": frozenset({"bios": "bios", "efi": "uefi"}[each] for each in firmware),
        "os_secure_boot": frozenset({"disabled", "optional"})
        | ({"required"} if any(board.secure_boot for board in boards) else frozenset()),
        "hw_firmware_stateless": (_versioned(host, _STATELESS_FIRMWARE, "true") if "efi" in firmware else frozenset())
        | {"false"},
        "hw_maxphysaddr_mode": _versioned(host, _ADDRESS_SPACE, "emulate", "passthrough"),
    }


def guest_architectures(host: HostCapabilities) -> frozenset[str]:
    """Return the architectures of guests that the host's CPUs run natively."""
    return frozenset({host.architecture}) | _ALSO_RUNS.get(host.architecture, frozenset())


def hypervisor_types(host: HostCapabilities) -> frozenset[str]:
    """Return the hypervisor types that images may require: always qemu, and kvm if guests run with KVM."""
    return frozenset({"qemu", host.virt_type})


def unusable_sound_cards(host: HostCapabilities) -> frozenset[str]:
    """Return the sound cards that this version of libvirt or QEMU cannot create, even if QEMU has the device."""
    virtio = frozenset() if _at_least(host, _VIRTIO_SOUND) else {"virtio"}
    return frozenset(virtio) | (frozenset({"pcspk"}) if host.qemu_version >= _NO_SPEAKER else frozenset())


def is_for_guests(board: MachineType, host: HostCapabilities) -> bool:
    """Tell whether guests of users may run on a machine type."""
    return host.architecture not in _X86 or board.name.startswith(_PC_BOARDS)


def _network_cards(host: HostCapabilities) -> frozenset[str]:
    """Return the models of network cards that both libvirt and QEMU support.

    The check is made here because libvirt checks QEMU's support for a card late, when a guest starts.
    """
    return host.nic_models - (frozenset() if _at_least(host, _IGB) else {"igb"})


def _iommus(host: HostCapabilities, boards: list[MachineType]) -> frozenset[str]:
    if not any(part in board.name for board in boards for part in _WITH_IOMMU):
        return frozenset()
    found = models_of("hw_viommu_model", host.device_types)
    if host.libvirt_version < _VIRTIO_IOMMU:
        found -= {"virtio"}
    return found | ({"auto"} if "virtio" in found else frozenset())


def _watchdog_actions(host: HostCapabilities) -> frozenset[str]:
    actions = {"none", "pause", "poweroff", "reset"} if "i6300esb" in host.device_types else frozenset()
    return frozenset({"disabled", *actions})


def _tpms(boards: list[MachineType]) -> dict[str, frozenset[str]]:
    """Return the TPM models and versions that swtpm emulates. If libvirt lists no versions, all are supported."""
    able = [board for board in boards if "emulator" in board.tpm_backends]
    versions = frozenset[str]().union(*(board.tpm_versions or _TPM_VERSIONS for board in able))
    models = frozenset[str]().union(*(board.tpm_models for board in able)) & {"tpm-tis", "tpm-crb"}
    return {"hw_tpm_model": models, "hw_tpm_version": versions & _TPM_VERSIONS}


def _versioned(host: HostCapabilities, libvirt_version: int, *values: str) -> frozenset[str]:
    return frozenset(values) if host.libvirt_version >= libvirt_version else frozenset()


def _at_least(host: HostCapabilities, versions: tuple[int, int]) -> bool:
    return host.libvirt_version >= versions[0] and host.qemu_version >= versions[1]
