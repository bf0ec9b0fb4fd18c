# SPDX-License-Identifier: Apache-2.0
"""Disks of guests as devices: buses, device names, boot order, limits, and the disks of a rescue."""

from dataclasses import replace
from pathlib import Path

import pytest

from kilonova.compute.virt.libvirt.domain.description import DiskFile, DiskRole
from kilonova.config.libvirt import LibvirtSettings
from kilonova.errors import UnsupportedGuest
from support.guest_descriptions import CONFIG, EPHEMERAL, RESCUE, ROOT, SWAP, described, guest_of, written

ALL = (ROOT, EPHEMERAL, SWAP, CONFIG, RESCUE)


def rescued(properties: dict[str, str], **of_guest: str) -> list[tuple[str, str, str, int | None]]:
    """Return name, target, device and place in the boot order of the disks of a guest in rescue."""
    disks = described(guest_of(properties=of_guest), *ALL, rescue=properties).devices.disks
    return [(disk.path.name, disk.target, disk.device, disk.boot_order) for disk in disks]


def test_a_requested_bus_is_that_of_its_disk_alone() -> None:
    disks = described(guest_of(), ROOT, replace(EPHEMERAL, bus="scsi"), SWAP, CONFIG).devices.disks
    assert [disk.target for disk in disks] == ["vda", "sda", "vdb", "hda"]
    with pytest.raises(UnsupportedGuest, match="disk_bus=ide"):
        described(guest_of(properties={"hw_machine_type": "q35"}), ROOT, replace(EPHEMERAL, bus="ide"))


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
    with pytest.raises(UnsupportedGuest, match="more disks than the bus fdc supports"):
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
