# SPDX-License-Identifier: Apache-2.0
"""The simulated hypervisor does what every driver does."""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kilonova.compute.files.images import HostImages
from kilonova.compute.virt.fake import FakeDriver
from kilonova.compute.virt.fake.guests import GuestFile
from kilonova.model.allocation_ratios import AllocationRatios
from kilonova.model.image_data import ImageData
from kilonova.scenario.model import SimulatedHost
from support.driver_contracts.whole import DriverContract
from support.driver_places import Place

_MODELS = {"hw_vif_model": ("virtio",)}
_DATA = b"data" * 1000


class SimulatedPlace(Place):
    """One simulated host. Guests of every image are the same, so they obey; the delay makes them take a moment."""

    host = "node1"

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._data: dict[str, bytes] = {}
        self.image, self.stubborn = self._image("plain"), self._image("stubborn")
        self.damaged = replace(self.image, image_id="damaged", location="", url="http://control")
        self.agent_dies()

    def _image(self, name: str) -> ImageData:
        file = self._folder / name
        file.write_bytes(_DATA)
        digest = hashlib.sha256(_DATA).hexdigest()
        return ImageData(name, file.as_uri(), size_bytes=len(_DATA), hash_algo="sha256", hash_value=digest)

    def agent_dies(self) -> None:
        images = HostImages(self._folder / "_base", max_bytes=1 << 30, transfers=self)
        host = SimulatedHost(self.host, models=_MODELS, shutdown_delay_s=0.01)
        self.driver = FakeDriver(host, self._file, AllocationRatios(), images=images)

    @property
    def _file(self) -> Path:
        return self._folder / "node1.json"

    def power_fails(self, uuid: str) -> None:
        FakeDriver(SimulatedHost(self.host), self._file, AllocationRatios()).stop(uuid)

    def vanishes(self, uuid: str) -> None:
        GuestFile(self.host, self._file).put(uuid, guest=None, kept=None)

    def left_behind(self, uuid: str) -> list[str]:
        there = [uuid] if uuid in GuestFile(self.host, self._file).places else []
        return there + [str(found) for found in self._folder.rglob(f"{uuid}*")]

    def files_with(self, secret: bytes) -> list[str]:
        return [str(file) for file in self._folder.rglob("*") if file.is_file() and secret in file.read_bytes()]

    def uploaded(self, image: ImageData) -> bytes | None:
        return self._data.get(image.image_id)

    # --- implements ImageTransfers ------------------------------------------------------------------------------------

    @contextmanager
    def download(self, image: ImageData, start: int, *, verify: bool | str) -> Iterator[Any]:
        del image, verify
        yield start, iter([b"other" * 800])

    def upload(self, image: ImageData, data: Any, *, verify: bool | str) -> Any:
        del verify
        sent = self._data[image.image_id] = b"".join(data)
        return {"size": len(sent), "os_hash_algo": "sha256", "os_hash_value": hashlib.sha256(sent).hexdigest()}


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    made = SimulatedPlace(tmp_path)
    yield made
    made.driver.close()


class TestFakeDriver(DriverContract):
    """Every test of the contract."""
