# SPDX-License-Identifier: Apache-2.0
"""Cached images of a simulated host, and the guests that use them."""

import os
import time
from pathlib import Path

import pytest

from kilonova.compute.files.images import HostImages
from kilonova.compute.virt.fake import FakeDriver
from kilonova.errors import Unsupported
from kilonova.model.allocation_ratios import AllocationRatios
from kilonova.model.cached_image import CachedImage
from kilonova.model.image_data import ImageData
from kilonova.model.instance import GuestSpec
from kilonova.scenario.model import SimulatedHost
from support.folder_images import FolderImages

RATIOS = AllocationRatios(cpu=1.0, memory=1.0, disk=1.0, reserved_memory_mib=0)


def test_a_simulated_host_lists_its_images_and_who_uses_them(tmp_path: Path) -> None:
    service = FolderImages(tmp_path / "service")
    for image_id in ("one", "two"):
        service.add(image_id, b"x" * 5000)
    images = HostImages(tmp_path / "_base", max_bytes=1 << 40, transfers=service)
    driver, other = (
        FakeDriver(SimulatedHost(name), tmp_path / f"{name}.json", RATIOS, images=images) for name in ("n1", "n2")
    )
    assert driver.cached_images() == ()
    for uuid in ("b", "a"):
        driver.spawn(
            GuestSpec(uuid=uuid, name=uuid, hostname=uuid, vcpus=1, memory_mib=512, root_gib=1, image=ImageData("one"))
        )
    other.spawn(
        GuestSpec(uuid="c", name="c", hostname="c", vcpus=1, memory_mib=512, root_gib=1, image=ImageData("one"))
    )
    driver.cache_image(ImageData("two"))
    then = time.time() - 7200
    os.utime(tmp_path / "_base" / "two", (then, then))
    one, two = driver.cached_images()
    assert one == CachedImage("one", "one", "", 5000, one.unused_s, ("a", "b"))
    assert two == CachedImage("two", "two", "", 5000, two.unused_s, ())
    assert 7200 <= two.unused_s < 7300
    assert one.unused_s < 60
    driver.destroy("a")
    assert driver.cached_images()[0].guests == ("b",)


def test_a_simulated_host_without_images_says_so(tmp_path: Path) -> None:
    with pytest.raises(Unsupported, match="n1 has no image cache"):
        FakeDriver(SimulatedHost("n1"), tmp_path / "n1.json", RATIOS).cached_images()
