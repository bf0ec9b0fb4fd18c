# SPDX-License-Identifier: Apache-2.0
"""Host of real guests for the driver contract tests."""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import libvirt

from kilonova.cli.up.tiny_image import tiny_image
from kilonova.compute.files.images import HostImages
from kilonova.compute.virt.host_setup import HostSetup
from kilonova.compute.virt.libvirt.driver import LibvirtDriver
from kilonova.config.libvirt import LibvirtSettings
from kilonova.model.image_data import ImageData
from support.driver_places import Place
from support.libvirt_node import LibvirtNode


class LibvirtPlace(Place):
    """Host on a libvirtd, with a folder of its own. ``settings``: additional ``[libvirt]`` options."""

    host = "node1"

    def __init__(self, node: LibvirtNode, folder: Path, **settings: Any) -> None:
        self._node, self._folder, self._settings = node, folder, settings
        self._data: dict[str, bytes] = {}
        self.image = self._image("obeys", tiny_image())
        self.stubborn = self._image("ignores", tiny_image(obeys_acpi=False))
        self.damaged = replace(self.image, image_id="damaged", location="", url="http://control")
        self._images = HostImages(folder / "_base", max_bytes=1 << 30, transfers=self)
        self.driver = self._new_driver()

    def _image(self, name: str, data: bytes) -> ImageData:
        file = self._folder / name
        file.write_bytes(data)
        digest = hashlib.sha256(data).hexdigest()
        return ImageData(
            name, file.as_uri(), size_bytes=len(data), hash_algo="sha256", hash_value=digest, disk_format="raw"
        )

    def _new_driver(self) -> LibvirtDriver:
        settings = LibvirtSettings(connection_uri=self._node.uri, virt_type="qemu", **self._settings)
        return LibvirtDriver(HostSetup(self.host, self._folder, self._images), settings)

    def agent_dies(self) -> None:
        self.driver.close()
        self.driver = self._new_driver()

    def _domain(self, uuid: str) -> Any:
        return libvirt.open(self._node.uri).lookupByUUIDString(uuid)

    def power_fails(self, uuid: str) -> None:
        self._domain(uuid).destroy()

    def vanishes(self, uuid: str) -> None:
        domain = self._domain(uuid)
        if domain.isActive():
            domain.destroy()
        domain.undefine()

    def left_behind(self, uuid: str) -> list[str]:
        there = [
            domain.name() for domain in libvirt.open(self._node.uri).listAllDomains() if domain.UUIDString() == uuid
        ]
        return there + [str(found) for found in self._folder.rglob(f"{uuid}*")]

    def files_with(self, secret: bytes) -> list[str]:
        return [str(file) for file in self._folder.rglob("*") if file.is_file() and secret in file.read_bytes()]

    def uploaded(self, image: ImageData) -> bytes | None:
        return self._data.get(image.image_id)

    def clear(self) -> None:
        for uuid in self.driver.list_guests():
            self.driver.destroy(uuid)
        self.driver.close()

    # --- implementation of ImageTransfers -----------------------------------------------------------------------------

    @contextmanager
    def download(self, image: ImageData, start: int, *, verify: bool | str) -> Iterator[Any]:
        del verify
        yield start, iter([b"x" * image.size_bytes])

    def upload(self, image: ImageData, data: Any, *, verify: bool | str) -> Any:
        del verify
        sent = self._data[image.image_id] = b"".join(data)
        return {"size": len(sent), "os_hash_algo": "sha256", "os_hash_value": hashlib.sha256(sent).hexdigest()}
