# SPDX-License-Identifier: Apache-2.0
"""Boot devices of real guests: a disk, a CD, or the device that a rescue image names."""

from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4
from xml.etree import ElementTree as ET

import libvirt
import pytest

from kilonova.cli.up.tiny_image import tiny_image
from kilonova.compute.files.images import HostImages
from kilonova.compute.virt.abilities import Rescue
from kilonova.compute.virt.host_setup import HostSetup
from kilonova.compute.virt.libvirt.driver import LibvirtDriver
from kilonova.config.libvirt import LibvirtSettings
from kilonova.errors import UnsupportedGuest
from kilonova.model.image_data import ImageData
from kilonova.model.instance import GuestSpec, PowerState
from support.guest_descriptions import guest_of
from support.libvirt_node import LibvirtNode
from support.waiting import wait_until

Drive = tuple[str | None, str | None, bool]


@pytest.fixture
def driver(libvirt_node: LibvirtNode, tmp_path: Path) -> Iterator[LibvirtDriver]:
    folder = libvirt_node.instances / tmp_path.name
    folder.mkdir()
    settings = LibvirtSettings(connection_uri=libvirt_node.uri, virt_type="qemu")
    made = LibvirtDriver(HostSetup("metal", folder, HostImages(folder / "_base", max_bytes=1 << 30)), settings)
    yield made
    for uuid in made.list_guests():
        made.destroy(uuid)
    made.close()


@pytest.fixture
def image(tmp_path: Path) -> ImageData:
    file = tmp_path / "tiny"
    file.write_bytes(tiny_image())
    return ImageData("tiny", file.as_uri(), size_bytes=file.stat().st_size, disk_format="raw")


@pytest.fixture
def iso(tmp_path: Path) -> ImageData:
    """CD image that also has a boot sector, as most hybrid installation CDs do."""
    data = bytearray(tiny_image())
    data[16 * 2048 : 16 * 2048 + 7] = b"\1CD001\1"
    file = tmp_path / "iso"
    file.write_bytes(data)
    return ImageData("iso", file.as_uri(), size_bytes=len(data), disk_format="iso")


@pytest.fixture
def guest(driver: LibvirtDriver, image: ImageData) -> GuestSpec:
    """Running guest with an ephemeral disk beside the root disk."""
    uuid = str(uuid4())
    made = guest_of(
        uuid=uuid, name=f"instance-{uuid[:8]}", memory_mib=32, ephemeral_gib=1, image_ref="tiny", image=image
    )
    driver.spawn(made)
    return made


def drives(node: LibvirtNode, guest: GuestSpec) -> list[Drive]:
    """Return name and bus of each disk, and whether it is a boot device."""
    connection = libvirt.open(node.uri)
    root = ET.fromstring(connection.lookupByUUIDString(guest.uuid).XMLDesc())
    connection.close()
    targets = ((disk.find("target"), disk.find("boot")) for disk in root.iterfind("devices/disk"))
    return sorted(
        (target.get("dev"), target.get("bus"), boot is not None) for target, boot in targets if target is not None
    )


def boots(driver: LibvirtDriver, guest: GuestSpec) -> int:
    return driver.console_output(guest.uuid, None).count(": boot ")


def test_with_a_device_of_its_own(
    driver: LibvirtDriver, libvirt_node: LibvirtNode, guest: GuestSpec, image: ImageData
) -> None:
    own = [("vda", "virtio", True), ("vdb", "virtio", False)]
    assert drives(libvirt_node, guest) == own
    wait_until(lambda: boots(driver, guest) == 1, "the guest to boot")
    for _ in range(2):
        driver.rescue(guest, Rescue("tiny", image, {"hw_rescue_device": "disk", "hw_rescue_bus": "usb"}))
    assert drives(libvirt_node, guest) == [
        ("sda", "usb", True),
        ("vda", "virtio", False),
        ("vdb", "virtio", False),
    ]
    wait_until(lambda: boots(driver, guest) == 2, "the rescue system to boot")
    driver.unrescue(guest.uuid)
    assert drives(libvirt_node, guest) == own


def test_without_one_it_takes_the_place_of_the_root_disk(
    driver: LibvirtDriver, libvirt_node: LibvirtNode, guest: GuestSpec, image: ImageData
) -> None:
    driver.rescue(guest, Rescue("tiny", image))
    assert drives(libvirt_node, guest) == [("vda", "virtio", True), ("vdb", "virtio", False)]


def test_a_device_that_cannot_be_had_leaves_the_guest_as_it_was(
    driver: LibvirtDriver, libvirt_node: LibvirtNode, guest: GuestSpec, image: ImageData
) -> None:
    before = drives(libvirt_node, guest)
    with pytest.raises(UnsupportedGuest, match="hw_rescue_bus=uml"):
        driver.rescue(guest, Rescue("tiny", image, {"hw_rescue_bus": "uml"}))
    assert drives(libvirt_node, guest) == before
    assert driver.list_guests()[guest.uuid] is PowerState.RUNNING


@pytest.mark.parametrize("board", ["pc", "q35"])
def test_an_iso_image_is_a_cd_that_is_booted(
    driver: LibvirtDriver, libvirt_node: LibvirtNode, iso: ImageData, board: str
) -> None:
    uuid = str(uuid4())
    properties = {"hw_machine_type": board}
    guest = guest_of(
        {}, properties, uuid=uuid, name=f"instance-{uuid[:8]}", memory_mib=32, image_ref="iso", image=iso, swap_mib=8
    )
    driver.spawn(guest)
    cd = ("hda", "ide", True) if board == "pc" else ("sda", "sata", True)
    assert drives(libvirt_node, guest) == [cd, ("vda", "virtio", False)]
    wait_until(lambda: boots(driver, guest) == 1, "the guest to boot")


def test_a_rescue_from_a_cd(driver: LibvirtDriver, libvirt_node: LibvirtNode, guest: GuestSpec, iso: ImageData) -> None:
    wait_until(lambda: boots(driver, guest) == 1, "the guest to boot")
    driver.rescue(guest, Rescue("iso", iso, {"hw_rescue_device": "cdrom"}))
    assert drives(libvirt_node, guest) == [("hda", "ide", True), ("vda", "virtio", False), ("vdb", "virtio", False)]
    wait_until(lambda: boots(driver, guest) == 2, "the rescue system to boot")
