# SPDX-License-Identifier: Apache-2.0
"""The devices that flavors and images ask for, and the disks of guests that are rescued."""

from dataclasses import replace
from pathlib import Path

import pytest

from kilonova.compute.virt.libvirt.domain.description import DiskFile, DiskRole, Domain
from kilonova.compute.virt.libvirt.domain.device_description import HostDevice, Rng, Tpm, Watchdog
from kilonova.config.consoles import ConsoleSettings
from kilonova.config.libvirt import LibvirtSettings
from kilonova.errors import UnsupportedGuest
from kilonova.model.guest_devices import GuestDevice, GuestDevices
from support.guest_descriptions import CONFIG, EPHEMERAL, HOST, Q35, RESCUE, ROOT, SWAP, described, guest_of, written

ALL = (ROOT, EPHEMERAL, SWAP, CONFIG, RESCUE)


def rescued(properties: dict[str, str], **of_guest: str) -> list[tuple[str, str, str, int | None]]:
    """Return name, target, device and place in the boot order of the disks of a guest in rescue."""
    disks = described(guest_of(properties=of_guest), *ALL, rescue=properties).devices.disks
    return [(disk.path.name, disk.target, disk.device, disk.boot_order) for disk in disks]


def test_a_rescue_disk_takes_the_place_of_the_root_disk() -> None:
    assert rescued({}) == [
        ("disk.rescue", "vda", "disk", 1),
        ("disk", "vdb", "disk", None),
        ("disk.config", "hda", "cdrom", None),
    ]


@pytest.mark.parametrize("properties", [{}, {"hw_rescue_bus": "usb"}])
def test_the_config_drive_of_a_rescue_takes_the_place_of_the_guests_own(properties: dict[str, str]) -> None:
    own = [(disk.bus, disk.target) for disk in described(guest_of(), ROOT, CONFIG).devices.disks]
    of_rescue = DiskFile(DiskRole.RESCUE_CONFIG, Path("/instances/u/disk.config.rescue"), "raw")
    disks = described(guest_of(), *ALL, of_rescue, rescue=properties).devices.disks
    (found,) = (disk for disk in disks if "config" in disk.path.name)
    assert (found.path.name, found.device, found.read_only) == ("disk.config.rescue", "cdrom", True)
    assert (found.bus, found.target) == own[1]


@pytest.mark.parametrize(
    ("properties", "target", "device"),
    [
        ({"hw_rescue_device": "disk"}, "vdd", "disk"),
        ({"hw_rescue_bus": "usb"}, "sda", "disk"),
        ({"hw_rescue_device": "cdrom"}, "hdb", "cdrom"),
        ({"hw_rescue_device": "cdrom", "hw_rescue_bus": "scsi"}, "sda", "cdrom"),
        ({"hw_rescue_device": "floppy"}, "fda", "floppy"),
    ],
)
def test_a_rescue_device_leaves_all_disks_their_names(properties: dict[str, str], target: str, device: str) -> None:
    assert rescued(properties) == [
        ("disk", "vda", "disk", None),
        ("disk.eph0", "vdb", "disk", None),
        ("disk.swap", "vdc", "disk", None),
        ("disk.config", "hda", "cdrom", None),
        ("disk.rescue", target, device, 1),
    ]


@pytest.mark.parametrize(
    ("properties", "named"),
    [
        ({"hw_rescue_device": "lun"}, "hw_rescue_device"),
        ({"hw_rescue_device": "cdrom", "hw_rescue_bus": "virtio"}, "hw_rescue_bus"),
        ({"hw_rescue_bus": "uml"}, "hw_rescue_bus"),
    ],
)
def test_rescue_devices_that_cannot_be_had(properties: dict[str, str], named: str) -> None:
    with pytest.raises(UnsupportedGuest, match=named):
        rescued(properties)


@pytest.mark.parametrize(
    ("properties", "disk", "cdrom"),
    [
        ({}, ("virtio", "vda"), ("ide", "hda")),
        ({"hw_machine_type": "q35"}, ("virtio", "vda"), ("sata", "sda")),
        ({"hw_disk_bus": "scsi", "hw_cdrom_bus": "scsi"}, ("scsi", "sda"), ("scsi", "sdb")),
        ({"hw_disk_bus": "ide"}, ("ide", "hda"), ("ide", "hdb")),
        ({"vmware_adaptertype": "ide"}, ("ide", "hda"), ("ide", "hdb")),
        ({"vmware_adaptertype": "lsiLogicsas"}, ("scsi", "sda"), ("ide", "hda")),
        ({"hw_disk_bus": "usb"}, ("usb", "sda"), ("ide", "hda")),
    ],
)
def test_buses_and_names_of_disks(properties: dict[str, str], disk: tuple[str, str], cdrom: tuple[str, str]) -> None:
    disks = described(guest_of(properties=properties), ROOT, CONFIG).devices.disks
    assert [(each.bus, each.target) for each in disks] == [disk, cdrom]


def test_a_floppy_is_one_by_its_bus_and_there_are_two_at_most() -> None:
    floppies = guest_of(properties={"hw_disk_bus": "fdc"})
    assert [disk.device for disk in described(floppies, ROOT, SWAP).devices.disks] == ["floppy", "floppy"]
    with pytest.raises(UnsupportedGuest, match="more disks than the bus fdc takes"):
        described(floppies, ROOT, SWAP, EPHEMERAL)


def test_the_scsi_controller_is_the_images_and_there_only_for_disks() -> None:
    def controllers(properties: dict[str, str]) -> list[tuple[str, str | None]]:
        found = described(guest_of(properties=properties)).devices.controllers
        return [(each.type, each.model) for each in found if each.type != "usb"]

    assert controllers({"hw_disk_bus": "scsi", "hw_scsi_model": "virtio-scsi"}) == [("scsi", "virtio-scsi")]
    assert controllers({"vmware_adaptertype": "lsiLogicsas"}) == [("scsi", "lsisas1068")]
    assert controllers({"hw_disk_bus": "scsi"}) == []
    assert controllers({"hw_scsi_model": "virtio-scsi"}) == []


def test_disks_are_as_fast_as_the_flavor_lets_them_be() -> None:
    limits = {"read_iops_sec": "100", "total_iops_sec": "0", "total_bytes_sec": "1048576"}
    guest = guest_of({f"quota:disk_{name}": value for name, value in limits.items()})
    root, config = described(guest, ROOT, CONFIG).devices.disks
    assert root.limits == {"read_iops_sec": 100, "total_bytes_sec": 1048576}
    assert config.limits == {}


def test_how_the_host_keeps_disks_is_the_operators() -> None:
    settings = LibvirtSettings(disk_cachemodes=("network=writeback", "file=none"), hw_disk_discard="unmap")
    driver = written(described(guest_of(), settings=settings)).find("devices/disk/driver")
    assert driver is not None
    assert driver.attrib == {"name": "qemu", "type": "qcow2", "cache": "none", "discard": "unmap"}


def test_devices_that_flavor_or_image_ask_for() -> None:
    specs = {
        "hw_rng:rate_bytes": "1024",
        "hw_rng:rate_period": "100",
        "hw:watchdog_action": "reset",
        "hw:tpm_version": "2.0",
        "hw:tpm_model": "tpm-crb",
        "hw:sound_model": "ich9",
        "hw_video:ram_max_mb": "64",
        "hw:serial_port_count": "3",
    }
    properties = {
        "hw_watchdog_action": "poweroff",
        "hw_qemu_guest_agent": "yes",
        "hw_video_model": "qxl",
        "hw_video_ram": "32",
        "hw_input_bus": "virtio",
    }
    devices = described(guest_of(specs, properties), settings=LibvirtSettings(swtpm_enabled=True)).devices
    assert devices.rng == Rng(Path("/dev/urandom"), 1024, 100)
    assert devices.watchdog == Watchdog("i6300esb", "poweroff")
    assert devices.tpm == Tpm("2.0", "tpm-crb")
    assert devices.sound == "ich9"
    assert devices.video is not None
    assert (devices.video.model, devices.video.vram_kib) == ("qxl", 32768)
    assert [channel.name for channel in devices.channels] == ["org.qemu.guest_agent.0"]
    assert [(device.type, device.bus) for device in devices.inputs] == [("tablet", "virtio"), ("keyboard", "virtio")]
    assert [serial.log is not None for serial in devices.serials] == [True, False, False]
    assert [(each.type, each.model) for each in devices.controllers] == [("usb", "none")]


def test_devices_can_be_switched_off() -> None:
    guest = guest_of({"hw_rng:allowed": "false", "hw:watchdog_action": "reset"}, {"hw_watchdog_action": "disabled"})
    settings = LibvirtSettings(mem_stats_period_s=0, pointer_model="ps2mouse")
    devices = described(guest, settings=settings).devices
    assert (devices.rng, devices.watchdog, devices.inputs) == (None, None, ())
    assert devices.balloon.model == "none"


def test_usb_is_there_for_whatever_needs_it() -> None:
    no_screen = ConsoleSettings(vnc_enabled=False)
    for properties in ({"hw_sound_model": "usb"}, {"hw_disk_bus": "usb"}):
        asked = {**properties, "hw_usb_model": "qemu-xhci"}
        (usb,) = described(guest_of(properties=asked), consoles=no_screen).devices.controllers
        assert (usb.type, usb.model) == ("usb", "qemu-xhci")
        with pytest.raises(UnsupportedGuest, match="hw:usb_model=none"):
            described(guest_of({"hw:usb_model": "none"}, properties), consoles=no_screen)


def test_what_a_tpm_keeps_has_no_secret_here() -> None:
    guest = guest_of({"hw:tpm_version": "2.0", "hw:tpm_secret_security": "host"})
    with pytest.raises(UnsupportedGuest, match="hw:tpm_secret_security"):
        described(guest, settings=LibvirtSettings(swtpm_enabled=True))


def test_serial_consoles_of_users_are_at_the_ports_that_the_driver_found() -> None:
    guest = guest_of({"hw:serial_port_count": "2"})
    consoles = ConsoleSettings(serial_enabled=True, serial_reached_at="127.0.0.2")
    found = described(guest, consoles=consoles, serial_tcp_ports=(10000, 10001, 10002)).devices.serials
    assert [(serial.host, serial.port, serial.log is not None) for serial in found] == [
        ("127.0.0.2", 10000, True),
        ("127.0.0.2", 10001, False),
    ]


def firmware_of(domain: Domain) -> tuple[bool, bool, bool, str | None]:
    firmware = domain.firmware
    return firmware.efi, firmware.secure_boot, firmware.stateless, firmware.loader


@pytest.mark.parametrize(
    ("specs", "properties", "expected"),
    [
        ({}, {}, (True, False, False, None)),
        ({"os:secure_boot": "optional"}, {}, (True, False, False, None)),
        ({"os:secure_boot": "optional"}, {"hw_machine_type": "q35"}, (True, True, False, None)),
        ({}, {"os_secure_boot": "required", "hw_machine_type": "q35"}, (True, True, False, None)),
        ({"os:secure_boot": "disabled"}, {"hw_machine_type": "q35"}, (True, False, False, None)),
        ({}, {"hw_firmware_stateless": "yes", "hw_machine_type": "q35"}, (True, False, True, "/ovmf/OVMF_CODE.fd")),
    ],
)
def test_uefi(specs: dict[str, str], properties: dict[str, str], expected: tuple[bool, bool, bool, str | None]) -> None:
    assert firmware_of(described(guest_of(specs, {"hw_firmware_type": "uefi", **properties}))) == expected


def test_what_a_board_without_uefi_or_secure_boot_cannot_do() -> None:
    plain = replace(HOST, machines={"q35": replace(Q35, firmware=frozenset({"bios"}), secure_boot=False)})
    asked = {"hw_machine_type": "q35", "hw_firmware_type": "uefi"}
    with pytest.raises(UnsupportedGuest, match="hw_firmware_type=uefi"):
        described(guest_of(properties=asked), host=plain)
    insecure = replace(HOST, machines={"q35": replace(Q35, secure_boot=False)})
    with pytest.raises(UnsupportedGuest, match="os_secure_boot=required"):
        described(guest_of({"os:secure_boot": "required"}, asked), host=insecure)
    with pytest.raises(UnsupportedGuest, match="hw_firmware_stateless"):
        described(guest_of({"os:secure_boot": "required"}, {**asked, "hw_firmware_stateless": "yes"}))


def test_windows_under_kvm_knows_its_hypervisor_unless_it_is_hidden() -> None:
    kvm = replace(HOST, virt_type="kvm")
    windows = guest_of(properties={"os_type": "windows"})
    domain = described(windows, host=kvm)
    assert domain.clock.offset == "localtime"
    assert [timer.name for timer in domain.clock.timers] == ["pit", "rtc", "hpet", "hypervclock"]
    assert domain.features.hyperv
    assert domain.features.tb_cache_mib is None
    assert not described(windows).features.hyperv
    hidden = written(described(guest_of({"hw:hide_hypervisor_id": "1"}, {"os_type": "windows"}), host=kvm))
    assert hidden.find("features/hyperv/vendor_id") is not None
    assert hidden.find("features/kvm/hidden") is not None


def test_reserved_pci_devices_are_the_guests() -> None:
    devices = (
        GuestDevice("0000:81:00.1", "8086", "154d", "type-VF"),
        GuestDevice("0001:0a:1f.7", "10de", "1eb8", "type-PCI", tags=(("managed", "no"),)),
    )
    found = described(guest_of(reserved=GuestDevices((), devices))).devices.host_devices
    assert found == (HostDevice(0, 0x81, 0, 1), HostDevice(1, 0x0A, 0x1F, 7, managed=False))
    with pytest.raises(UnsupportedGuest, match="not a PCI address"):
        described(guest_of(reserved=GuestDevices((), (replace(devices[0], address="../0000:81:00.1"),))))


def test_an_iommu_that_interrupts_can_be_told_by_needs_kvm() -> None:
    guest = guest_of({"hw:viommu_model": "intel"}, {"hw_machine_type": "q35"})
    by_qemu, by_kvm = (described(guest, host=replace(HOST, virt_type=virt_type)) for virt_type in ("qemu", "kvm"))
    assert by_qemu.devices.iommu is not None
    assert by_kvm.devices.iommu is not None
    assert by_qemu.devices.iommu.options == {"caching_mode": "on", "iotlb": "on", "aw_bits": "48"}
    assert by_kvm.devices.iommu.options == {**by_qemu.devices.iommu.options, "intremap": "on", "eim": "on"}
    automatic = described(guest_of({"hw:viommu_model": "auto"}, {"hw_machine_type": "q35"}))
    assert automatic.devices.iommu is not None
    assert automatic.devices.iommu.model == "virtio"


def test_a_guest_of_arm() -> None:
    host = replace(HOST, architecture="aarch64", machines={}, virt_type="kvm")
    root = written(described(guest_of(), ROOT, CONFIG, host=host))
    assert root.find("os/type[@machine='virt'][@arch='aarch64']") is not None
    assert root.find("os[@firmware='efi']") is not None
    assert root.find("features/apic") is None
    assert root.find("sysinfo") is None
    assert [(device.get("type"), device.get("bus")) for device in root.iterfind("devices/input")] == [
        ("tablet", "usb"),
        ("keyboard", "usb"),
    ]
