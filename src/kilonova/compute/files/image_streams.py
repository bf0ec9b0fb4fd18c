# SPDX-License-Identifier: Apache-2.0
"""The data of an image on its way into a file and out of one, looked at as it goes by."""

import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

from kilonova.errors import ImageUnusable
from kilonova.model.image_data import ImageData

PIECE = 1 << 20


class WatchedFile:
    """A file on its way to the control plane. ``len``: as HTTP clients ask for it."""

    def __init__(self, file: IO[bytes], size: int, check: Callable[[], None]) -> None:
        self._file = file
        self._check = check
        self.len = size

    def read(self, size: int = PIECE) -> bytes:
        self._check()
        return self._file.read(size)

    def __iter__(self) -> Iterator[bytes]:
        return iter(self.read, b"")


class ImageDraft:
    """A file that is being written, with what it hashes to so far."""

    def __init__(self, file: IO[bytes], image: ImageData) -> None:
        self._file = file
        self._image = image
        self.begin_anew()

    def begin_anew(self) -> None:
        self._file.seek(0)
        self._file.truncate()
        self.size = 0
        self._hash = _hash_of(self._image.hash_algo)

    def add(self, piece: bytes) -> None:
        """Raises: ImageUnusable for more than there ought to be."""
        self.size += len(piece)
        if self._image.size_bytes and self.size > self._image.size_bytes:
            raise ImageUnusable(f"Image {self._image.image_id} is larger than the image service says.")
        self._file.write(piece)
        if self._hash is not None:
            self._hash.update(piece)

    def require_whole(self) -> None:
        """Raises: ImageUnusable."""
        image = self._image
        if image.size_bytes and self.size != image.size_bytes:
            raise ImageUnusable(f"Image {image.image_id} has {self.size} bytes instead of {image.size_bytes}.")
        if self._hash is not None and self._hash.hexdigest() != image.hash_value:
            raise ImageUnusable(f"Image {image.image_id} is damaged: it does not have its {image.hash_algo} checksum.")


def _hash_of(algorithm: str) -> Any:
    """Return what hashes, None where the image service does not say how or this machine does not know that."""
    if algorithm not in hashlib.algorithms_available:
        return None
    return hashlib.new(algorithm, usedforsecurity=False)


def hashes_to(file: Path, stored: Any) -> bool:
    """Tell whether a file is what the image service has ``stored``; yes, where that cannot be told."""
    if _hash_of(stored["os_hash_algo"]) is None:
        return True
    with file.open("rb") as data:
        digest = hashlib.file_digest(data, lambda: _hash_of(stored["os_hash_algo"]))
    return digest.hexdigest() == str(stored["os_hash_value"])
