# SPDX-License-Identifier: Apache-2.0
"""Images that a host keeps: how long, for whom, and before anybody asks."""

import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from kilonova.compute.files.images import HostImages
from kilonova.compute.image_cache import ImageCacheManager
from kilonova.compute.virt.fake import FakeDriver
from kilonova.compute.virt.fake.disks import Disks
from kilonova.errors import DriverError
from kilonova.messaging.messages import CacheImages
from kilonova.model.allocation_ratios import AllocationRatios
from kilonova.model.image_data import CacheResult, ImageData
from kilonova.model.instance import GuestSpec
from kilonova.scenario.model import SimulatedHost
from support.folder_images import FolderImages
from support.one_host import OneHost, new_step

OLD_S = 86_400.0


@pytest.fixture
def service(tmp_path: Path) -> FolderImages:
    service = FolderImages(tmp_path / "service")
    for image_id in ("one", "two"):
        service.add(image_id, f"data of {image_id}".encode())
    return service


@pytest.fixture
def images(tmp_path: Path, service: FolderImages) -> HostImages:
    return HostImages(tmp_path / "_base", max_bytes=1 << 40, transfers=service)


@pytest.fixture
def driver(tmp_path: Path, images: HostImages) -> FakeDriver:
    ratios = AllocationRatios(cpu=1.0, memory=1.0, disk=1.0, reserved_memory_mib=0)
    return FakeDriver(SimulatedHost("node1"), tmp_path / "node1.json", ratios, images=images)


def guest(uuid: str, image_id: str) -> GuestSpec:
    return GuestSpec(
        uuid=uuid, name=uuid, hostname=uuid, vcpus=1, memory_mib=512, root_gib=1, image=ImageData(image_id)
    )


def kept(tmp_path: Path) -> list[str]:
    return sorted(file.name for file in (tmp_path / "_base").iterdir())


def age(tmp_path: Path, name: str, seconds: float) -> None:
    then = time.time() - seconds
    os.utime(tmp_path / "_base" / name, (then, then))


def test_an_image_goes_when_no_guest_has_used_it_for_long(
    tmp_path: Path, driver: FakeDriver, images: HostImages
) -> None:
    for image_id in ("one", "two"):
        driver.spawn(guest(f"of-{image_id}", image_id))
        age(tmp_path, image_id, OLD_S + 1)
    manager = ImageCacheManager([images], 0, OLD_S)
    manager.look()
    assert kept(tmp_path) == ["one", "two"]  # guests are made of both
    driver.destroy("of-one")
    manager.look()
    assert kept(tmp_path) == ["one", "two"]  # it counts from when it was used last
    age(tmp_path, "one", OLD_S - 10)
    manager.look()
    assert kept(tmp_path) == ["one", "two"]
    age(tmp_path, "one", OLD_S + 1)
    manager.look()
    assert kept(tmp_path) == ["two"]


def test_nothing_is_removed_where_the_options_say_so(tmp_path: Path, images: HostImages) -> None:
    images.fetch(ImageData("one"))
    age(tmp_path, "one", 99 * OLD_S)
    ImageCacheManager([images], 0, None).look()
    ImageCacheManager([], 0, 0.0).look()
    assert kept(tmp_path) == ["one"]


def test_what_makes_room_for_another_image_is_not_in_use(tmp_path: Path, service: FolderImages) -> None:
    images = HostImages(tmp_path / "_base", max_bytes=1, transfers=service)
    ratios = AllocationRatios(cpu=1.0, memory=1.0, disk=1.0, reserved_memory_mib=0)
    FakeDriver(SimulatedHost("node1"), tmp_path / "node1.json", ratios, images=images).spawn(guest("a", "one"))
    images.fetch(ImageData("two"))
    service.add("three", b"3")
    images.fetch(ImageData("three"))
    assert kept(tmp_path) == ["one", "three"]


def test_what_comes_of_fetching_an_image_beforehand(driver: FakeDriver) -> None:
    assert driver.cache_image(ImageData("one")) is CacheResult.CACHED
    assert driver.cache_image(ImageData("one")) is CacheResult.EXISTING
    assert driver.cache_image(ImageData("gone")) is CacheResult.ERROR


def test_a_host_that_reads_no_images_answers_that_it_keeps_none(tmp_path: Path) -> None:
    reply = OneHost(tmp_path).do(CacheImages(new_step(), (ImageData("one"),)))
    assert reply.images == {"one": CacheResult.UNSUPPORTED}


def test_a_disk_that_is_made_of_the_same_image_again_leaves_no_other_name(tmp_path: Path, images: HostImages) -> None:
    """As after a crash between the disk and the record of its guest."""
    disks, data = Disks(tmp_path / "disks", "node1"), images.fetch(ImageData("one"))
    for _ in range(2):
        disks.make("guest", data)
    assert [file.name for file in (tmp_path / "disks" / "node1").iterdir()] == ["guest"]


def test_an_image_that_a_record_names_stays(tmp_path: Path, service: FolderImages) -> None:
    used = {"one"}
    images = HostImages(tmp_path / "_base", max_bytes=0, transfers=service, in_use=lambda: used)
    for image_id in ("one", "two"):
        images.fetch(ImageData(image_id))
    assert kept(tmp_path) == ["one", "two"]
    for name in kept(tmp_path):
        age(tmp_path, name, OLD_S + 1)
    assert images.forget_unused(OLD_S) == ("two",)
    age(tmp_path, "one", OLD_S + 1)
    used.clear()
    assert images.forget_unused(OLD_S) == ("one",)


def test_nothing_goes_while_it_is_not_known_what_guests_need(tmp_path: Path, service: FolderImages) -> None:
    def unknown() -> frozenset[str]:
        raise DriverError("disks.json cannot be read")

    images = HostImages(tmp_path / "_base", max_bytes=0, transfers=service, in_use=unknown)
    for image_id in ("one", "two"):
        images.fetch(ImageData(image_id))
        age(tmp_path, image_id, OLD_S + 1)
    with pytest.raises(DriverError):
        images.forget_unused(OLD_S)
    assert kept(tmp_path) == ["one", "two"]


def test_what_somebody_is_about_to_use_stays(tmp_path: Path, images: HostImages) -> None:
    images.fetch(ImageData("one"))
    age(tmp_path, "one", OLD_S + 1)
    with images.locked("one"):
        assert images.forget_unused(OLD_S) == ()
    assert images.forget_unused(OLD_S) == ("one",)


def test_empty_file_systems_have_an_age_of_their_own(tmp_path: Path, images: HostImages) -> None:
    images.fetch(ImageData("one"))
    with images.locked("ephemeral_1_ext4"), images.draft("ephemeral_1_ext4.raw") as draft:
        images.put("ephemeral_1_ext4.raw", draft)
    for name in kept(tmp_path):
        age(tmp_path, name, 5000)
    assert images.forget_unused(OLD_S, 3600) == ("ephemeral_1_ext4.raw",)
    assert kept(tmp_path) == ["one"]


def test_what_nobody_has_fetched_to_its_end_goes_after_a_day(tmp_path: Path, images: HostImages) -> None:
    images.fetch(ImageData("one"))
    for name, seconds in (("a.part", OLD_S + 1), ("b.part", OLD_S - 100)):
        (tmp_path / "_base" / name).touch()
        age(tmp_path, name, seconds)
    images.forget_unused(OLD_S)
    assert kept(tmp_path) == ["b.part", "one"]


def test_processes_that_share_a_folder_fetch_an_image_once(tmp_path: Path, service: FolderImages) -> None:
    asked, lock = [], threading.Lock()
    download = service.download

    def counted(image: ImageData, start: int, *, verify: bool | str) -> Any:
        with lock:
            asked.append(image.image_id)
        return download(image, start, verify=verify)

    service.download = counted  # type: ignore[method-assign]
    several = [HostImages(tmp_path / "_base", max_bytes=1 << 40, transfers=service) for _ in range(5)]
    with ThreadPoolExecutor(20) as pool:
        files = set(pool.map(lambda number: several[number % 5].fetch(ImageData("one")), range(20)))
    assert (len(files), asked) == (1, ["one"])
