# SPDX-License-Identifier: Apache-2.0
"""A guest that is rescued boots the image of the rescue, with its own disk where the image wants it."""

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from uuid import uuid4
from xml.etree import ElementTree as ET

import libvirt
import pytest

from kilonova.cli.tiny_image import tiny_image
from kilonova.compute.images import HostImages
from kilonova.compute.virt.host_setup import HostSetup
from kilonova.compute.virt.libvirt.driver import LibvirtDriver
from kilonova.config.libvirt import LibvirtSettings
from kilonova.errors import UnsupportedGuest
from kilonova.model.config_drive import ConfigDrive
from kilonova.model.image_data import ImageData
from kilonova.model.instance import GuestSpec, PowerState
from support.guest_descriptions import guest_of
from support.libvirt_node import LibvirtNode
from support.waiting import wait_until

Devices = list[tuple[str, str, str]]
_PASSWORD = "heliotrope"


@pytest.fixture
def image(tmp_path: Path) -> ImageData:
    file = tmp_path / "tiny.img"
    file.write_bytes(tiny_image())
    return ImageData("tiny", file.as_uri(), size_bytes=file.stat().st_size, disk_format="raw")


@pytest.fixture
def folder(libvirt_node: LibvirtNode, tmp_path: Path) -> Path:
    made = libvirt_node.instances / tmp_path.name
    made.mkdir()
    return made


@pytest.fixture
def driver(libvirt_node: LibvirtNode, folder: Path) -> Iterator[LibvirtDriver]:
    images = HostImages(folder / "_base", max_bytes=1 << 30)
    settings = LibvirtSettings(connection_uri=libvirt_node.uri, virt_type="qemu")
    made = LibvirtDriver(HostSetup("node1", folder, images), settings)
    yield made
    for uuid in made.list_guests():
        made.destroy(uuid)
    made.close()


@pytest.fixture
def guest(driver: LibvirtDriver, image: ImageData) -> GuestSpec:
    """One that has booted once from its own disk."""
    uuid = str(uuid4())
    made = guest_of(uuid=uuid, name=f"instance-{uuid[:8]}", memory_mib=32, image=image, config_drive=ConfigDrive("web"))
    driver.spawn(made)
    wait_for_boots(driver, made, 1)
    return made


def wait_for_boots(driver: LibvirtDriver, guest: GuestSpec, *boots: int) -> None:
    """Wait until a guest has said this at its starts: each disk counts how often it was booted from, a CD 0."""

    def said() -> list[int]:
        return [int(number) for number in re.findall("image: boot ([0-9]+),", driver.console_output(guest.uuid, None))]

    wait_until(lambda: said() == [*boots], f"boots {boots}")


def devices(node: LibvirtNode, guest: GuestSpec) -> Devices:
    """Return file, device and bus of each disk."""
    xml = ET.fromstring(libvirt.open(node.uri).lookupByUUIDString(guest.uuid).XMLDesc())
    found = []
    for disk in xml.findall("./devices/disk"):
        source, target = disk.find("source"), disk.find("target")
        assert source is not None
        assert target is not None
        found.append((Path(source.attrib["file"]).name, disk.attrib["device"], target.attrib["bus"]))
    return found


@pytest.mark.parametrize(
    ("properties", "disks", "boot"),
    [
        ({}, [("disk.rescue", "disk", "virtio"), ("disk", "disk", "virtio")], 1),
        (
            {"hw_rescue_device": "disk", "hw_rescue_bus": "virtio"},
            [("disk", "disk", "virtio"), ("disk.rescue", "disk", "virtio")],
            1,
        ),
        ({"hw_rescue_bus": "usb"}, [("disk", "disk", "virtio"), ("disk.rescue", "disk", "usb")], 1),
        ({"hw_rescue_device": "cdrom"}, [("disk", "disk", "virtio"), ("disk.rescue", "cdrom", "ide")], 0),
    ],
)
def test_it_boots_what_it_is_rescued_with(
    driver: LibvirtDriver,
    libvirt_node: LibvirtNode,
    guest: GuestSpec,
    image: ImageData,
    properties: dict[str, str],
    disks: Devices,
    boot: int,
) -> None:
    before = devices(libvirt_node, guest)
    rescued = replace(guest, config_drive=ConfigDrive("web", admin_pass=_PASSWORD))
    driver.rescue(rescued, "helper", replace(image, image_id="helper"), _PASSWORD, None, properties)
    wait_for_boots(driver, guest, 1, boot)
    found = devices(libvirt_node, guest)
    assert [device for device in found if not device[0].startswith("disk.config")] == disks
    assert [name for name, _, _ in found if name.startswith("disk.config")] == ["disk.config.rescue"]
    driver.unrescue(guest.uuid)
    wait_for_boots(driver, guest, 1, boot, 2)
    assert devices(libvirt_node, guest) == before


def test_a_device_that_cannot_be_had_leaves_it_as_it_was(
    driver: LibvirtDriver, guest: GuestSpec, image: ImageData, folder: Path
) -> None:
    rescued = replace(guest, config_drive=ConfigDrive("web", admin_pass=_PASSWORD))
    with pytest.raises(UnsupportedGuest, match="hw_rescue_bus=uml"):
        driver.rescue(rescued, "helper", image, _PASSWORD, None, {"hw_rescue_bus": "uml"})
    assert driver.list_guests() == {guest.uuid: PowerState.RUNNING}
    wait_for_boots(driver, guest, 1, 2)
    assert not list(folder.rglob("*rescue*"))
    assert '"rescue' not in (folder / guest.uuid / "disks.json").read_text()
