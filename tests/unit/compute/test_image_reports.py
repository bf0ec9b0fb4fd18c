# SPDX-License-Identifier: Apache-2.0
"""What a host says of the images that it keeps."""

import os
import time
from pathlib import Path

import pytest

from kilonova.compute.agent import Agent
from kilonova.compute.files.image_names import format_of, image_id_of, name_of, without_format
from kilonova.compute.files.images import HostImages
from kilonova.compute.virt.fake import FakeDriver
from kilonova.errors import Unsupported
from kilonova.model.allocation_ratios import AllocationRatios
from kilonova.model.cached_image import CachedImage
from kilonova.model.image_data import ImageData
from kilonova.model.instance import GuestSpec
from kilonova.scenario.model import SimulatedHost
from support.folder_images import FolderImages
from support.manual_bus import ManualBus

RATIOS = AllocationRatios(cpu=1.0, memory=1.0, disk=1.0, reserved_memory_mib=0)


@pytest.mark.parametrize("image_id", ["9a8b0f0e-0000-4000-8000-000000000001", "a.b", "../x y", "i.raw"])
@pytest.mark.parametrize("hash_value", ["", "0123456789abcdef" * 8])
def test_the_name_of_a_file_tells_its_image(image_id: str, hash_value: str) -> None:
    name = name_of(ImageData(image_id, hash_value=hash_value))
    assert "/" not in name
    for format_ in ("raw", "qcow2", "iso"):
        file = f"{name}.{format_}"
        assert (without_format(file), format_of(file)) == (name, format_)
    if hash_value:
        assert (without_format(name), format_of(name)) == (name, "")
        assert image_id_of(name) == image_id_of(f"{name}.raw") == image_id


def test_what_is_no_image_has_no_id() -> None:
    assert (image_id_of("ephemeral_20_ext4.raw"), format_of("ephemeral_20_ext4.raw")) == ("", "raw")


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
    with pytest.raises(Unsupported, match="n1 keeps no images"):
        FakeDriver(SimulatedHost("n1"), tmp_path / "n1.json", RATIOS).cached_images()


def test_what_a_host_keeps_is_in_its_report_where_that_is_wanted(tmp_path: Path) -> None:
    service = FolderImages(tmp_path / "service")
    service.add("one", b"x")
    images = HostImages(tmp_path / "_base", max_bytes=1 << 40, transfers=service)
    simulated = SimulatedHost("n1", metrics={"cpu.percent": 0.5})
    driver = FakeDriver(simulated, tmp_path / "n1.json", RATIOS, images=images)
    agent = Agent("n1", driver, ManualBus(), reports_images=True)
    assert agent.report().metrics == driver.report().metrics
    driver.cache_image(ImageData("one"))
    (tmp_path / "_base" / "ephemeral_1_ext4.raw").touch()
    assert agent.report().metrics == {"cpu.percent": 0.5, "image.one": 1.0}
    assert Agent("n1", driver, ManualBus()).report().metrics == {"cpu.percent": 0.5}
    without = FakeDriver(simulated, tmp_path / "n1.json", RATIOS)
    assert Agent("n1", without, ManualBus(), reports_images=True).report().metrics == without.report().metrics
