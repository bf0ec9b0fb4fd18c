# SPDX-License-Identifier: Apache-2.0
"""What is refused before a guest is made, and in which words."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from kilonova.compute.virt.libvirt.host.capabilities import HostCapabilities
from kilonova.compute.virt.libvirt.late_check import why_not, why_unusable
from kilonova.config.libvirt import LibvirtSettings
from kilonova.model.instance import GuestSpec
from support.libvirt_hosts import arm, debian_12, two_sockets

_SETTINGS = LibvirtSettings(swtpm_enabled=True)


def _guest(properties: Mapping[str, str], extra_specs: Mapping[str, str] | None = None) -> GuestSpec:
    return GuestSpec(
        uuid="6f1c9d0e-7f6c-4f10-8f2b-52b7b1f1a0aa",
        name="instance-00000001",
        hostname="first",
        vcpus=1,
        memory_mib=64,
        root_gib=1,
        image_properties=properties,
        extra_specs=extra_specs or {},
    )


def _reason(
    host: HostCapabilities, properties: Mapping[str, str], specs: Mapping[str, str] | None = None
) -> str | None:
    return why_not(_guest(properties, specs), host, _SETTINGS)


@pytest.mark.parametrize(
    "properties",
    [
        {},
        {"hw_vif_model": "VirtualVmxnet3", "hw_video_model": "qxl", "hw_disk_bus": "scsi", "hw_scsi_model": "lsilogic"},
        {"hw_machine_type": "pc", "hw_disk_bus": "ide"},
        {
            "hw_machine_type": "pc-q35-7.2",
            "hw_disk_bus": "sata",
            "hw_firmware_type": "uefi",
            "os_secure_boot": "required",
        },
        {"architecture": "amd64", "hypervisor_type": "qemu", "vm_mode": "hvm"},
        {"architecture": "i386"},
        {"hw_tpm_version": "2.0", "hw_tpm_model": "tpm-crb"},
        {"hw_machine_type": "q35", "hw_viommu_model": "auto"},
        {"hw_watchdog_action": "reset", "hw_rng_model": "virtio", "hw_input_bus": "virtio", "hw_sound_model": "ich9"},
        {"hw_firmware_type": "uefi", "hw_firmware_stateless": "yes"},
        {"something_of_mine": "whatever"},
    ],
)
def test_what_the_host_has_is_not_refused(properties: Mapping[str, str]) -> None:
    assert _reason(debian_12(), properties) is None


@pytest.mark.parametrize(
    ("host", "properties", "said"),
    [
        (debian_12, {"hw_vif_model": "igb"}, ("hw_vif_model=igb", "e1000e", "virtio")),
        (debian_12, {"hw_vif_model": "lan9118"}, ("hw_vif_model=lan9118", "e1000e")),
        (two_sockets, {"hw_machine_type": "q35", "hw_video_model": "qxl"}, ("hw_video_model=qxl", "vga")),
        (debian_12, {"hw_video_model": "gop"}, ("hw_video_model=gop", "qxl")),
        (debian_12, {"hw_machine_type": "q35", "hw_disk_bus": "ide"}, ("hw_disk_bus=ide", "sata")),
        (debian_12, {"hw_machine_type": "q35", "hw_cdrom_bus": "uml"}, ("hw_cdrom_bus=uml", "sata")),
        (debian_12, {"hw_disk_bus": "xen"}, ("hw_disk_bus=xen", "virtio")),
        (debian_12, {"hw_machine_type": "sun4m"}, ("hw_machine_type=sun4m",)),
        (debian_12, {"hw_machine_type": "isapc"}, ("hw_machine_type=isapc",)),
        (debian_12, {"hw_disk_bus": "scsi", "hw_scsi_model": "buslogic"}, ("hw_scsi_model=buslogic", "virtio-scsi")),
        (debian_12, {"hw_firmware_type": "uefi", "os_secure_boot": "required"}, ("os_secure_boot=required", "q35")),
        (
            two_sockets,
            {"hw_machine_type": "q35", "hw_firmware_type": "uefi", "os_secure_boot": "required"},
            ("os_secure_boot=required", "disabled, optional"),
        ),
        (two_sockets, {"hw_machine_type": "q35", "hw_tpm_version": "2.0"}, ("hw_tpm_version=2.0", "none")),
        (debian_12, {"hw_architecture": "aarch64"}, ("hw_architecture=aarch64", "x86_64")),
        (debian_12, {"hw_emulation_architecture": "ppc64le"}, ("hw_emulation_architecture=ppc64le", "x86_64")),
        (debian_12, {"img_hv_type": "kvm"}, ("img_hv_type=kvm", "qemu")),
        (debian_12, {"hw_vm_mode": "xen"}, ("hw_vm_mode=xen", "hvm")),
        (debian_12, {"hw_sound_model": "virtio"}, ("sound_model=virtio",)),
        (debian_12, {"hw_viommu_model": "intel"}, ("viommu_model=intel", "q35")),
        (debian_12, {"hw_machine_type": "q35", "hw_viommu_model": "smmuv3"}, ("viommu_model=smmuv3",)),
        (
            two_sockets,
            {"hw_machine_type": "q35", "hw_watchdog_action": "reset"},
            ("hw_watchdog_action=reset", "disabled"),
        ),
        (arm, {"hw_firmware_type": "bios"}, ("hw_firmware_type=bios", "uefi")),
        (arm, {"hw_firmware_type": "uefi", "hw_input_bus": "virtio"}, ("hw_input_bus=virtio", "usb")),
    ],
)
def test_what_it_lacks_is_refused_by_its_name_with_what_there_is_instead(
    host: Callable[[], HostCapabilities], properties: Mapping[str, str], said: tuple[str, ...]
) -> None:
    reason = _reason(host(), properties)
    assert reason is not None
    assert all(part in reason for part in said), reason


def test_the_flavor_is_judged_like_the_image() -> None:
    reason = _reason(two_sockets(), {"hw_machine_type": "q35"}, {"hw:watchdog_action": "reset"})
    assert reason is not None
    assert reason.startswith("hw:watchdog_action=reset is not supported")


def test_what_newer_releases_of_libvirt_are_needed_for() -> None:
    host = replace(debian_12(), libvirt_version=8_005_000)
    stateless = {"hw_firmware_type": "uefi", "hw_firmware_stateless": "true"}
    assert (_reason(host, stateless) or "").startswith("hw_firmware_stateless=true is not supported")
    assert _reason(debian_12(), stateless) is None
    addresses = {"hw_maxphysaddr_mode": "emulate", "hw_maxphysaddr_bits": "42"}
    assert (_reason(host, addresses) or "").startswith("hw_maxphysaddr_mode=emulate is not supported")
    assert _reason(debian_12(), addresses) is None


def test_values_of_users_are_shown_short_and_on_one_line() -> None:
    reason = _reason(debian_12(), {"img_hv_type": "x\n" * 500})
    assert reason is not None
    assert "\n" not in reason
    assert len(reason) < 200


def test_tpms_have_to_be_switched_on() -> None:
    reason = why_not(_guest({"hw_tpm_version": "2.0"}), debian_12(), LibvirtSettings())
    assert reason is not None
    assert "[libvirt] swtpm_enabled" in reason


def test_an_arm_host_without_firmware_makes_no_guest_and_says_why() -> None:
    boards = {name: replace(board, firmware=frozenset()) for name, board in arm().machines.items()}
    assert why_unusable(arm(), LibvirtSettings()) is None
    reason = why_unusable(replace(arm(), machines=boards), LibvirtSettings())
    assert reason is not None
    assert reason.endswith(": virt machines need UEFI, but libvirt finds no UEFI firmware on this host.")


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({}, None),
        ({"cpu_mode": "custom", "cpu_models": ("EPYC",)}, None),
        ({"cpu_mode": "custom", "cpu_models": ("Haswell",)}, "[libvirt] cpu_models=Haswell"),
        ({"cpu_mode": "custom"}, "[libvirt] cpu_models"),
        ({"hw_machine_type": ("x86_64=pc-q35-99",)}, "[libvirt] hw_machine_type=pc-q35-99"),
        ({"swtpm_enabled": True}, "[libvirt] swtpm_enabled"),
    ],
)
def test_what_operators_want_of_every_guest_is_checked_once(settings: dict[str, Any], said: str | None) -> None:
    reason = why_unusable(two_sockets(), LibvirtSettings(**{"hw_machine_type": ("x86_64=q35",), **settings}))
    assert (reason is None) if said is None else said in str(reason)
