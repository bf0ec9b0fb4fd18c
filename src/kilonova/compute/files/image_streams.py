# SPDX-License-Identifier: Apache-2.0
"""Streams of image data: into a file, with a check of the data's checksum; out of a file, with a cancellation check."""

import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

from kilonova.errors import ImageUnusable
from kilonova.model.image_data import ImageData

PIECE = 1 << 20


class WatchedFile:
    """A file that is uploaded to the control plane; ``check`` is called before each chunk is read.

    ``len``: size of the file in bytes; HTTP clients read this attribute.
    """

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
    """An image file that is being written, and the size and hash of the data written so far."""

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
        """Write a chunk. Raises: ImageUnusable if the data exceeds the size of the image."""
        self.size += len(piece)
        if self._image.size_bytes and self.size > self._image.size_bytes:
            raise ImageUnusable(f"Image {self._image.image_id} is larger than the image service says.")
        self._file.write(piece)
        if self._hash is not None:
            self._hash.update(piece)

    def require_whole(self) -> None:
        """Check size and checksum of the complete data. Raises: ImageUnusable."""
        image = self._image
        if image.size_bytes and self.size != image.size_bytes:
            raise ImageUnusable(f"Image {image.image_id} has {self.size} bytes instead of {image.size_bytes}.")
        if self._hash is not None and self._hash.hexdigest() != image.hash_value:
            raise ImageUnusable(
                f"Image {image.image_id} is damaged: its data does not match its {image.hash_algo} checksum."
            )


def _hash_of(algorithm: str) -> Any:
    """Return a new hash object, or None if ``algorithm`` is empty or not available on this host."""
    if algorithm not in hashlib.algorithms_available:
        return None
    return hashlib.new(algorithm, usedforsecurity=False)


def hashes_to(file: Path, stored: Any) -> bool:
    """Tell whether a file has the hash of an image; True also if this host lacks the hash algorithm.

    ``stored``: the image as the image service describes it.
    """
    if _hash_of(stored["os_hash_algo"]) is None:
        return True
    with file.open("rb") as data:
        digest = hashlib.file_digest(data, lambda: _hash_of(stored["os_hash_algo"]))
    return digest.hexdigest() == str(stored["os_hash_value"])
