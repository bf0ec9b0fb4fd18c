# SPDX-License-Identifier: Apache-2.0
"""Rescued guests boot the rescue image, and have a config drive of their own during the rescue."""

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import libvirt
import pytest

from kilonova.cli.up.tiny_image import tiny_image
from kilonova.compute.files.images import HostImages
from kilonova.compute.virt.abilities import Rescue
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
    """Guest that has booted once from its own disk."""
    uuid = str(uuid4())
    made = guest_of(uuid=uuid, name=f"instance-{uuid[:8]}", memory_mib=32, image=image, config_drive=ConfigDrive("web"))
    driver.spawn(made)
    wait_for_boots(driver, made, 1)
    return made


def wait_for_boots(driver: LibvirtDriver, guest: GuestSpec, *boots: int) -> None:
    """Wait until the guest's starts have printed these counts; each disk counts its boots, a CD always prints 0."""

    def said() -> list[int]:
        return [int(number) for number in re.findall("image: boot ([0-9]+),", driver.console_output(guest.uuid, None))]

    wait_until(lambda: said() == [*boots], f"the boot counts {boots}")


def config_drive(node: LibvirtNode, guest: GuestSpec) -> str:
    """Return the file that is a guest's present config drive."""
    xml = libvirt.open(node.uri).lookupByUUIDString(guest.uuid).XMLDesc()
    (found,) = re.findall(r"/(disk\.config[^/']*)'", xml)
    return str(found)


@pytest.mark.parametrize(
    ("properties", "boot"),
    [({}, 1), ({"hw_rescue_device": "disk", "hw_rescue_bus": "virtio"}, 1), ({"hw_rescue_device": "cdrom"}, 0)],
)
def test_it_boots_what_it_is_rescued_with(
    driver: LibvirtDriver,
    libvirt_node: LibvirtNode,
    guest: GuestSpec,
    image: ImageData,
    properties: dict[str, str],
    boot: int,
) -> None:
    assert config_drive(libvirt_node, guest) == "disk.config"
    rescued = replace(guest, config_drive=ConfigDrive("web", admin_pass=_PASSWORD))
    driver.rescue(rescued, Rescue("helper", replace(image, image_id="helper"), properties))
    wait_for_boots(driver, guest, 1, boot)
    assert config_drive(libvirt_node, guest) == "disk.config.rescue"
    driver.unrescue(guest.uuid)
    wait_for_boots(driver, guest, 1, boot, 2)
    assert config_drive(libvirt_node, guest) == "disk.config"


def test_a_device_that_cannot_be_had_leaves_it_as_it_was(
    driver: LibvirtDriver, guest: GuestSpec, image: ImageData, folder: Path
) -> None:
    rescued = replace(guest, config_drive=ConfigDrive("web", admin_pass=_PASSWORD))
    with pytest.raises(UnsupportedGuest, match="hw_rescue_bus=uml"):
        driver.rescue(rescued, Rescue("helper", image, {"hw_rescue_bus": "uml"}))
    assert driver.list_guests() == {guest.uuid: PowerState.RUNNING}
    wait_for_boots(driver, guest, 1, 2)
    assert not list(folder.rglob("*rescue*"))
    assert '"rescue' not in (folder / guest.uuid / "disks.json").read_text()
