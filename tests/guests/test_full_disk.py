# SPDX-License-Identifier: Apache-2.0
"""Full file system of guests' disks: requests fail, running guests survive, and no files are left behind."""

import shutil
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace

import pytest

from kilonova.compute.virt.abilities import Rescue
from kilonova.errors import DriverError
from kilonova.identifiers import new_uuid
from kilonova.model.config_drive import ConfigDrive
from kilonova.model.image_data import ImageData
from kilonova.model.instance import PowerState
from support.driver_places import GuestTimeout, Monitor, later
from support.libvirt_node import LibvirtNode
from support.libvirt_place import LibvirtPlace
from support.small_disk import SmallDisk, small_disk
from support.waiting import wait_until

RUNNING, PAUSED, SHUTDOWN = PowerState.RUNNING, PowerState.PAUSED, PowerState.SHUTDOWN


@pytest.fixture(scope="module")
def disk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SmallDisk]:
    with small_disk(tmp_path_factory.mktemp("full") / "disk") as made:
        yield made


@pytest.fixture(scope="module")
def node(disk: SmallDisk) -> Iterator[LibvirtNode]:
    """A libvirtd started after the mount, because a running one has its own mount namespace."""
    assert disk.folder.is_mount()
    made = LibvirtNode()
    try:
        made.start()
        yield made
    finally:
        made.remove()


@pytest.fixture
def place(node: LibvirtNode, disk: SmallDisk) -> Iterator[LibvirtPlace]:
    folder = disk.folder / new_uuid()
    folder.mkdir()
    made = LibvirtPlace(node, folder)
    yield made
    with suppress(FileNotFoundError):
        disk.make_room()
    made.clear()
    shutil.rmtree(folder)


def unfinished(disk: SmallDisk) -> list[str]:
    return [path.name for path in disk.folder.rglob("*") if path.suffix in {".part", ".gone"}]


@pytest.mark.parametrize("cached", [False, True])
def test_a_guest_that_has_no_room_leaves_nothing(place: LibvirtPlace, disk: SmallDisk, *, cached: bool) -> None:
    if cached:
        place.driver.cache_image(place.image)
    guest = place.guest(config_drive=ConfigDrive("web"))
    disk.fill()
    with pytest.raises(DriverError) as caught:
        place.driver.spawn(guest)
    assert "No space left on device" in caught.value.message
    assert (place.state(guest), place.left_behind(guest.uuid), unfinished(disk)) == (None, [], [])
    disk.make_room()
    place.driver.spawn(guest)
    assert place.state(guest) is RUNNING


def test_one_that_runs_stays_as_it_is_when_there_is_no_room_for_more(place: LibvirtPlace, disk: SmallDisk) -> None:
    guest = place.made(place.stubborn)
    driver, uuid = place.driver, guest.uuid
    wait_until(lambda: driver.console_output(uuid, None), "the guest to boot")
    disk.fill()
    rescued = replace(guest, config_drive=ConfigDrive("web", admin_pass="heliotrope"))
    anew = replace(guest, image_ref="obeys", image=place.image, ordered_at=later(guest))
    new = ImageData("new", url="http://control")
    for attempt in (
        lambda: driver.rescue(rescued, Rescue("obeys", place.image)),
        lambda: driver.snapshot(uuid, "new", place.image, Monitor()),
        lambda: driver.rebuild(anew, power_on=True),
    ):
        with pytest.raises(DriverError):
            attempt()
        assert (place.state(guest), unfinished(disk), place.files_with(b"heliotrope")) == (RUNNING, [], [])
    with pytest.raises(DriverError):
        driver.upload_snapshot(uuid, new, Monitor())

    driver.move_away(uuid, place.host, GuestTimeout(looks=1))
    with pytest.raises(DriverError):
        driver.finish_move(replace(guest, memory_mib=64, ordered_at=later(guest)), place.host, power_on=True)
    assert (place.state(guest), unfinished(disk)) == (SHUTDOWN, [])
    assert driver.return_home(guest, power_on=True) is RUNNING


def test_a_guest_that_cannot_write_stands_still_until_there_is_room(place: LibvirtPlace, disk: SmallDisk) -> None:
    guest = place.made()
    place.driver.stop(guest.uuid)
    place.driver.changed_guests()
    disk.fill()
    place.driver.start(guest.uuid)
    wait_until(lambda: place.state(guest) is PAUSED, "the guest to be paused")
    wait_until(lambda: place.driver.changed_guests() == {guest.uuid: PAUSED}, "the event of the pause")
    disk.make_room()
    place.driver.pause(guest.uuid)
    place.driver.unpause(guest.uuid)
    wait_until(lambda: "disks" in place.driver.console_output(guest.uuid, 1), "the guest to continue")
    assert place.state(guest) is RUNNING
