# SPDX-License-Identifier: Apache-2.0
"""Image service with real disk images created by qemu-img; it records downloads."""

import hashlib
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kilonova.model.image_data import ImageData

MIB = 1 << 20


def qemu_img(*arguments: str | Path) -> str:
    return subprocess.run(["qemu-img", *map(str, arguments)], check=True, capture_output=True, text=True).stdout


class RealImages:
    """Implementation of ``ImageTransfers``. ``asked``: ids of the downloaded images, one entry per download."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        self.asked: list[str] = []
        self.taken: dict[str, bytes] = {}
        folder.mkdir(exist_ok=True)

    def add(self, image_id: str, file: Path, disk_format: str) -> ImageData:
        """Add the image stored in a file, and return its description for hosts."""
        data = file.read_bytes()
        (self._folder / image_id).write_bytes(data)
        digest = hashlib.sha512(data).hexdigest()
        return ImageData(image_id, size_bytes=len(data), hash_algo="sha512", hash_value=digest, disk_format=disk_format)

    def make(self, image_id: str, disk_format: str, *, mib: int = 4, options: tuple[str, ...] = ()) -> ImageData:
        """Add an image with a disk of ``mib`` MiB whose first bytes are the image id."""
        raw = self._folder / "raw"
        raw.write_bytes(image_id.encode())
        with raw.open("r+b") as file:
            file.truncate(mib * MIB)
        made = self._folder / "made"
        qemu_format = {"vhd": "vpc"}.get(disk_format, disk_format)
        qemu_img("convert", "-f", "raw", "-O", qemu_format, *options, raw, made)
        return self.add(image_id, made, disk_format)

    def damage(self, image_id: str) -> None:
        (self._folder / image_id).write_bytes(b"something else")

    @contextmanager
    def download(self, image: ImageData, start: int, *, verify: bool | str) -> Iterator[tuple[int, Iterator[bytes]]]:
        with self._lock:
            self.asked.append(image.image_id)
        yield 0, iter([(self._folder / image.image_id).read_bytes()])

    def upload(self, image: ImageData, data: Any, *, verify: bool | str) -> Any:
        whole = self.taken[image.image_id] = b"".join(data)
        return {"size": len(whole), "os_hash_algo": "sha512", "os_hash_value": hashlib.sha512(whole).hexdigest()}
