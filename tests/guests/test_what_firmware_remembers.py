# SPDX-License-Identifier: Apache-2.0
"""UEFI variables and TPM state of a guest are removed with the guest, and not before."""

from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from kilonova.compute.files.images import HostImages
from kilonova.compute.virt.host_setup import HostSetup
from kilonova.compute.virt.libvirt.driver import LibvirtDriver
from kilonova.config.libvirt import LibvirtSettings
from kilonova.model.instance import GuestSpec
from support.guest_descriptions import guest_of
from support.libvirt_node import LibvirtNode

_HOST = "metal"


@pytest.fixture
def driver(libvirt_node: LibvirtNode, tmp_path: Path) -> Iterator[LibvirtDriver]:
    folder = libvirt_node.instances / tmp_path.name
    folder.mkdir()
    settings = LibvirtSettings(connection_uri=libvirt_node.uri, virt_type="qemu", swtpm_enabled=True)
    made = LibvirtDriver(HostSetup(_HOST, folder, HostImages(folder / "_base", max_bytes=0)), settings)
    yield made
    for uuid in made.list_guests():
        made.destroy(uuid)
    made.close()


@pytest.fixture
def guest(driver: LibvirtDriver) -> GuestSpec:
    """Running guest with UEFI and a TPM."""
    uuid = str(uuid4())
    specs, properties = {"hw:tpm_version": "2.0"}, {"hw_firmware_type": "uefi"}
    made = guest_of(specs, properties, uuid=uuid, name=f"instance-{uuid[:8]}", memory_mib=64)
    driver.spawn(made)
    return made


def memories(node: LibvirtNode, guest: GuestSpec) -> dict[str, int]:
    """Return the inode of each file with UEFI variables or TPM state."""
    found = [*node.folder.glob(f"lib/swtpm/{guest.uuid}/**/*-00.permall"), *node.folder.glob(f"**/{guest.name}_VARS*")]
    return {file.name: file.stat().st_ino for file in found}


def test_a_guest_that_is_resized_and_taken_back_keeps_its_memories(
    driver: LibvirtDriver, libvirt_node: LibvirtNode, guest: GuestSpec
) -> None:
    before = memories(libvirt_node, guest)
    assert len(before) == 2
    driver.move_away(guest.uuid, _HOST)
    assert memories(libvirt_node, guest) == before
    driver.finish_move(guest, _HOST, power_on=True)
    assert memories(libvirt_node, guest) == before
    driver.abandon_move(guest.uuid)
    driver.return_home(guest, power_on=True)
    assert memories(libvirt_node, guest) == before
    driver.destroy(guest.uuid)
    assert not memories(libvirt_node, guest)


def test_nothing_is_left_of_a_guest_that_is_removed_in_the_middle_of_a_move(
    driver: LibvirtDriver, libvirt_node: LibvirtNode, guest: GuestSpec
) -> None:
    driver.move_away(guest.uuid, _HOST)
    driver.destroy(guest.uuid)
    assert not memories(libvirt_node, guest)
    assert guest.uuid not in driver.list_guests()
