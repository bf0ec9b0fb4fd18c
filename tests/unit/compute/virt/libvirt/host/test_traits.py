# SPDX-License-Identifier: Apache-2.0
"""The traits of libvirt hosts."""

from dataclasses import replace

import pytest

from kilonova.compute.virt.libvirt.host.traits import traits_of
from kilonova.config.libvirt import LibvirtSettings
from support.libvirt_hosts import arm, debian_12, traits_with, two_sockets

_NO_TPM, _TPM = LibvirtSettings(), LibvirtSettings(swtpm_enabled=True)


@pytest.mark.parametrize(
    ("prefix", "pc", "newer", "arm_server"),
    [
        (
            "COMPUTE_NET_VIF_MODEL_",
            {"VIRTIO", "E1000", "E1000E", "NE2K_PCI", "PCNET", "RTL8139", "VMXNET3"},
            {"VIRTIO", "E1000E", "IGB"},
            {"VIRTIO"},
        ),
        (
            "COMPUTE_STORAGE_BUS_",
            {"FDC", "IDE", "SATA", "SCSI", "USB", "VIRTIO"},
            {"SATA", "SCSI", "VIRTIO"},
            {"FDC", "SATA", "SCSI", "USB", "VIRTIO"},
        ),
        (
            "COMPUTE_GRAPHICS_MODEL_",
            {"BOCHS", "CIRRUS", "NONE", "QXL", "VGA", "VIRTIO", "VMVGA"},
            {"NONE", "VGA", "VIRTIO"},
            {"NONE", "VIRTIO"},
        ),
        ("COMPUTE_VIOMMU_MODEL_", {"AUTO", "INTEL", "VIRTIO"}, set(), {"SMMUV3"}),
        (
            "COMPUTE_SOUND_MODEL_",
            {"AC97", "ES1370", "ICH6", "ICH9", "SB16", "USB"},
            {"AC97", "VIRTIO"},
            set(),
        ),
        ("COMPUTE_USB_MODEL_", {"NEC_XHCI", "QEMU_XHCI"}, set(), {"QEMU_XHCI"}),
        ("HW_ARCH_", {"X86_64"}, {"X86_64"}, {"AARCH64"}),
        ("COMPUTE_ARCH_", {"X86_64"}, {"X86_64"}, {"AARCH64"}),
        ("COMPUTE_ADDRESS_SPACE_", *(3 * [{"EMULATED", "PASSTHROUGH"}])),
        ("COMPUTE_SECURITY_", {"STATELESS_FIRMWARE", "UEFI_SECURE_BOOT"}, *(2 * [{"STATELESS_FIRMWARE"}])),
        ("COMPUTE_SOCKET_PCI_", *(3 * [{"NUMA_AFFINITY"}])),
        ("COMPUTE_NET_VIRTIO_", *(3 * [{"PACKED"}])),
        ("COMPUTE_IMAGE_TYPE_", *(3 * [{"AMI", "ISO", "QCOW2", "RAW", "VDI", "VHD", "VHDX", "VMDK"}])),
    ],
)
def test_every_family_says_what_is_there(prefix: str, pc: set[str], newer: set[str], arm_server: set[str]) -> None:
    assert traits_with(debian_12(), prefix) == pc
    assert traits_with(two_sockets(), prefix) == newer
    assert traits_with(arm(), prefix) == arm_server


def test_nothing_is_said_of_what_the_driver_does_not_do() -> None:
    absent = (
        "COMPUTE_NET_ATTACH_INTERFACE_WITH_TAG",
        "COMPUTE_VOLUME",
        "COMPUTE_DEVICE_TAGGING",
        "COMPUTE_ACCELERATORS",
        "COMPUTE_RESCUE",
    )
    for host in (debian_12(), two_sockets(), arm()):
        assert not [name for name in traits_of(host, _TPM) if name.startswith(absent)]


def test_tpms_are_there_where_operators_want_them_and_swtpm_is_there() -> None:
    tpm = "COMPUTE_SECURITY_TPM_"
    assert traits_with(debian_12(), tpm) == set()
    assert traits_with(debian_12(), tpm, _TPM) == {"1_2", "2_0", "CRB", "TIS"}
    assert traits_with(two_sockets(), tpm, _TPM) == set()


def test_a_libvirt_that_names_no_versions_of_tpms_has_both() -> None:
    host = debian_12()
    boards = {name: replace(board, tpm_versions=frozenset()) for name, board in host.machines.items()}
    assert {"1_2", "2_0"} <= traits_with(replace(host, machines=boards), "COMPUTE_SECURITY_TPM_", _TPM)


@pytest.mark.parametrize(
    ("libvirt_version", "qemu_version", "igb", "sound"),
    [
        (9_002_000, 8_002_000, False, False),
        (9_003_000, 7_002_000, False, False),
        (9_003_000, 8_000_000, True, False),
        (10_004_000, 8_001_000, True, False),
        (10_003_000, 8_002_000, True, False),
        (10_004_000, 8_002_000, True, True),
    ],
)
def test_devices_that_only_newer_releases_can_use(
    libvirt_version: int, qemu_version: int, igb: bool, sound: bool
) -> None:
    host = replace(two_sockets(), libvirt_version=libvirt_version, qemu_version=qemu_version)
    assert ("IGB" in traits_with(host, "COMPUTE_NET_VIF_MODEL_")) is igb
    assert ("VIRTIO" in traits_with(host, "COMPUTE_SOUND_MODEL_")) is sound


def test_what_an_older_libvirt_cannot_do() -> None:
    host = replace(debian_12(), libvirt_version=8_002_000)
    assert traits_with(host, "COMPUTE_VIOMMU_MODEL_") == {"INTEL"}
    assert traits_with(host, "COMPUTE_ADDRESS_SPACE_") == set()
    assert "COMPUTE_SECURITY_STATELESS_FIRMWARE" not in traits_of(host, _NO_TPM)


def test_firmware_that_keeps_nothing_needs_firmware() -> None:
    host = debian_12()
    boards = {name: replace(board, firmware=frozenset({"bios"})) for name, board in host.machines.items()}
    assert "COMPUTE_SECURITY_STATELESS_FIRMWARE" not in traits_of(replace(host, machines=boards), _NO_TPM)


def test_image_types_that_operators_exclude() -> None:
    named = traits_of(debian_12(), _NO_TPM, ("VMDK", " iso"))
    assert {"COMPUTE_IMAGE_TYPE_VMDK", "COMPUTE_IMAGE_TYPE_ISO"}.isdisjoint(named)
    assert "COMPUTE_IMAGE_TYPE_QCOW2" in named


def test_hyperthreads() -> None:
    assert "HW_CPU_HYPERTHREADING" in traits_of(two_sockets(), _NO_TPM)
    assert "HW_CPU_HYPERTHREADING" not in traits_of(debian_12(), _NO_TPM)
