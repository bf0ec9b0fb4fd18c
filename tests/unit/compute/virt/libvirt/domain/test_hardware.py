# SPDX-License-Identifier: Apache-2.0
"""What a guest gets when its flavor and its image say nothing, and what is refused."""

from dataclasses import replace

import pytest

from kilonova.compute.virt.libvirt.domain.description import Domain
from kilonova.compute.virt.libvirt.host.capabilities import MachineType
from kilonova.config.consoles import ConsoleSettings
from kilonova.config.libvirt import LibvirtSettings
from kilonova.errors import UnsupportedGuest
from support.guest_descriptions import CONFIG, EPHEMERAL, HOST, ROOT, SWAP, described, guest_of, written


def disks_of(domain: Domain) -> list[tuple[str, str, str]]:
    return [(disk.device, disk.bus, disk.target) for disk in domain.devices.disks]


def test_a_plain_guest_gets_what_nova_gives_it() -> None:
    domain = described(guest_of(), ROOT, CONFIG)
    assert (domain.machine, domain.vcpus, domain.memory_mib) == ("pc", 1, 64)
    assert domain.cpu.mode == "host-model"
    assert not domain.firmware.efi
    assert disks_of(domain) == [("disk", "virtio", "vda"), ("cdrom", "ide", "hda")]
    assert [disk.boot_order for disk in domain.devices.disks] == [1, None]
    devices = domain.devices
    assert devices.video is not None
    assert devices.video.model == "virtio"
    assert [(device.type, device.bus) for device in devices.inputs] == [("tablet", "usb")]
    assert devices.rng is not None
    assert devices.balloon.stats_period_s == 10
    assert (devices.watchdog, devices.tpm, devices.sound, devices.iommu, devices.nics) == (None, None, None, None, ())


def test_the_xml_of_a_plain_guest() -> None:
    root = written(described(guest_of(), ROOT, CONFIG))
    assert root.get("type") == "qemu"
    assert root.findtext("name") == "instance-0000002a"
    assert root.find("metadata/{urn:test}ours") is not None
    assert root.findtext("sysinfo/system/entry[@name='product']") == "OpenStack Nova"
    assert root.findtext("features/tcg/tb-cache") == "32"
    assert (root.findtext("on_poweroff"), root.findtext("on_reboot"), root.findtext("on_crash")) == (
        "destroy",
        "restart",
        "destroy",
    )
    log = root.find("devices/serial/log")
    assert log is not None
    assert (log.get("file"), log.get("append")) == ("/instances/u/console.log", "on")


def test_all_disks_of_a_guest() -> None:
    domain = described(guest_of(), ROOT, EPHEMERAL, EPHEMERAL, SWAP, CONFIG)
    assert [disk.target for disk in domain.devices.disks] == ["vda", "vdb", "vdc", "vdd", "hda"]


def test_an_iso_as_root_disk_is_a_cdrom() -> None:
    domain = described(guest_of(), replace(ROOT, is_cdrom=True, format="raw"), EPHEMERAL, CONFIG)
    assert disks_of(domain) == [("cdrom", "ide", "hda"), ("disk", "virtio", "vda"), ("cdrom", "ide", "hdb")]
    assert domain.devices.disks[0].boot_order == 1
    assert domain.devices.disks[0].read_only


def test_a_guest_without_a_screen_has_neither_video_nor_pointer_nor_usb() -> None:
    domain = described(guest_of(), consoles=ConsoleSettings(vnc_enabled=False))
    assert (domain.devices.graphics, domain.devices.video, domain.devices.inputs) == (None, None, ())
    assert [(each.type, each.model) for each in domain.devices.controllers] == [("usb", "none")]


def test_the_kind_of_machine_is_the_images_or_the_operators() -> None:
    settings = LibvirtSettings(hw_machine_type=("aarch64=virt", "x86_64=q35"))
    assert described(guest_of(), settings=settings).machine == "q35"
    assert described(guest_of(properties={"hw_machine_type": "pc-i440fx-7.2"}), settings=settings).machine == (
        "pc-i440fx-7.2"
    )


@pytest.mark.parametrize(
    ("specs", "properties", "named"),
    [
        ({}, {"hw_machine_type": "pc-i440fx-1.0"}, "hw_machine_type"),
        ({}, {"hw_machine_type": "microvm"}, "hw_machine_type"),
        ({}, {"hw_machine_type": "q35", "hw_disk_bus": "ide"}, "hw_disk_bus"),
        ({}, {"hw_disk_bus": "xen"}, "hw_disk_bus"),
        ({}, {"hw_cdrom_bus": "virtio"}, "hw_cdrom_bus"),
        ({}, {"hw_video_model": "gop"}, "hw_video_model"),
        ({}, {"hw_video_ram": "64"}, "hw_video_ram"),
        ({}, {"hw_vif_model": "igb"}, "hw_vif_model"),
        ({}, {"hw_vif_model": "VirtualVmxnet"}, "hw_vif_model"),
        ({}, {"hw_firmware_type": "coreboot"}, "hw_firmware_type"),
        ({}, {"hw_firmware_type": "uefi", "os_secure_boot": "required"}, "os_secure_boot"),
        ({"os:secure_boot": "required"}, {}, "os_secure_boot"),
        ({"os:secure_boot": "required"}, {"os_secure_boot": "disabled"}, "os:secure_boot"),
        ({}, {"kernel_id": "x"}, "kernel_id"),
        ({}, {"ramdisk_id": "x"}, "ramdisk_id"),
        ({"hw:mem_encryption": "true"}, {}, "mem_encryption"),
        ({"hw:pmem": "6GB"}, {}, "hw:pmem"),
        ({"accel:device_profile": "x"}, {}, "accel:device_profile"),
        ({"hw:tpm_version": "2.0"}, {}, "hw:tpm_version"),
        ({"hw:viommu_model": "intel"}, {}, "hw:viommu_model"),
        ({"hw:viommu_model": "smmuv3"}, {"hw_machine_type": "q35"}, "hw:viommu_model"),
        ({"hw:watchdog_action": "explode"}, {}, "hw_watchdog_action"),
        ({}, {"hw_sound_model": "virtio"}, "hw:sound_model"),
        ({}, {"hw_scsi_model": "ibmvscsi", "hw_disk_bus": "scsi"}, "hw_scsi_model"),
        ({"hw:redirected_usb_ports": "2"}, {}, "hw:redirected_usb_ports"),
        ({"hw:serial_port_count": "1"}, {"hw_serial_port_count": "2"}, "serial_port_count"),
        ({"hw:serial_port_count": "5"}, {}, "hw:serial_port_count"),
        ({"quota:cpu_period": "999"}, {}, "quota:cpu_period"),
        ({"quota:cpu_quota": "-2"}, {}, "quota:cpu_quota"),
        ({"quota:disk_read_iops_sec": "fast"}, {}, "quota:disk_read_iops_sec"),
        ({"quota:disk_read_iops_sec": "1", "quota:disk_total_iops_sec": "1"}, {}, "quota:disk_total_iops_sec"),
        ({"hw:maxphysaddr_mode": "emulate"}, {}, "hw:maxphysaddr_bits"),
        ({"hw:maxphysaddr_mode": "passthrough"}, {"hw_maxphysaddr_bits": "40"}, "hw:maxphysaddr_bits"),
        ({"hw:locked_memory": "true"}, {}, "hw:locked_memory"),
        ({"hw_rng:rate_bytes": "1e9"}, {}, "hw_rng:rate_bytes"),
        ({}, {"hw_architecture": "aarch64"}, "hw_architecture"),
        ({}, {"hw_vm_mode": "xen"}, "hw_vm_mode"),
        ({"hw:pmu": "true"}, {"hw_pmu": "false"}, "hw:pmu"),
    ],
)
def test_what_cannot_be_had_is_refused_by_name(specs: dict[str, str], properties: dict[str, str], named: str) -> None:
    with pytest.raises(UnsupportedGuest) as refused:
        described(guest_of(specs, properties))
    assert named in refused.value.message
    assert "\n" not in refused.value.message


def test_more_vcpus_than_a_board_has_or_than_interrupts_reach() -> None:
    with pytest.raises(UnsupportedGuest, match="256 vCPUs"):
        described(guest_of(vcpus=256))
    with pytest.raises(UnsupportedGuest, match="256 vCPUs need hw:viommu_model=intel"):
        described(guest_of(vcpus=256, properties={"hw_machine_type": "q35"}))
    reaching = guest_of({"hw:viommu_model": "intel"}, {"hw_machine_type": "q35"}, vcpus=256)
    assert described(reaching, host=replace(HOST, virt_type="kvm")).features.ioapic_by_emulator


@pytest.mark.parametrize("text", ["a\nb", "a\x00b", "\ud800", "\x1b[2J", "\x85"])
def test_text_that_xml_cannot_hold_is_refused(text: str) -> None:
    with pytest.raises(UnsupportedGuest):
        written(described(guest_of(hostname=text)))


@pytest.mark.parametrize("text", ["<name>x</name>", "]]>", "'\"&", "a<!--", "é中"])
def test_text_stays_text(text: str) -> None:
    root = written(described(guest_of(hostname=text)))
    assert root.findtext("title") == text
    assert [child.tag for child in root].count("name") == 1


def test_an_architecture_without_a_default_of_ours_gets_the_board_of_its_emulator() -> None:
    virt = MachineType("virt-10.0", firmware=frozenset({"efi"}))
    host = replace(HOST, architecture="riscv64", machines={"virt": virt, virt.name: virt}, default_machine=virt.name)
    domain = described(guest_of(), ROOT, host=host)
    assert (domain.machine, domain.firmware.efi) == ("virt-10.0", True)


def test_a_host_of_which_nothing_is_known_is_trusted() -> None:
    host = replace(HOST, machines={}, nic_models=frozenset(), cpu_models=frozenset())
    properties = {"hw_machine_type": "q35", "hw_disk_bus": "sata", "hw_vif_model": "igb"}
    assert described(guest_of(properties=properties), host=host).machine == "q35"
