# SPDX-License-Identifier: Apache-2.0
"""Cached images in the report of a host."""

from pathlib import Path

from kilonova.compute.agent import Agent
from kilonova.compute.files.images import HostImages
from kilonova.compute.virt.fake import FakeDriver
from kilonova.model.allocation_ratios import AllocationRatios
from kilonova.model.image_data import ImageData
from kilonova.scenario.model import SimulatedHost
from support.folder_images import FolderImages
from support.manual_bus import ManualBus

RATIOS = AllocationRatios(cpu=1.0, memory=1.0, disk=1.0, reserved_memory_mib=0)


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
