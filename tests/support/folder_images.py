# SPDX-License-Identifier: Apache-2.0
"""Image service in a folder, used by users, control processes and hosts; it survives a killed process."""

import contextlib
import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import orjson

from kilonova.errors import ImageUnusable
from kilonova.model.image import Image
from kilonova.model.image_data import ImageData
from kilonova.model.new_image import NewImage


class FolderImages:
    """Image store that implements ``ImageKeeper`` and ``ImageTransfers``.

    Each image has a metadata file and, when it is active, a data file.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(exist_ok=True)

    def add(self, image_id: str, data: bytes) -> None:
        """Add an active image."""
        self.create(NewImage(image_id, "own"))
        self._store(image_id, data)

    def create(self, image: NewImage, *, token: str | None = None) -> None:
        del token
        _replace(self._about(image.id), orjson.dumps(asdict(image)))

    def all(self) -> dict[str, dict[str, Any]]:
        """Return image id → its metadata and ``data`` (None while the image is queued)."""
        found = {}
        for file in self._folder.glob("*.json"):
            data = self._data(file.stem)
            known = orjson.loads(file.read_bytes())
            found[file.stem] = {**known, "data": data.read_bytes() if data.exists() else None}
        return found

    # --- used by control processes ------------------------------------------------------------------------------------

    def find(self, image_id: str) -> Image | None:
        try:
            known = orjson.loads(self._about(image_id).read_bytes())
        except FileNotFoundError:
            return None
        try:
            data = self._data(image_id).read_bytes()
        except FileNotFoundError:
            return Image(image_id, known["name"], "queued", known["disk_format"], properties=known["properties"])
        size, digest = len(data), hashlib.sha512(data).hexdigest()
        return Image(
            image_id, known["name"], size_bytes=size, properties=known["properties"], hash_algo="sha512",
            hash_value=digest,
        )  # fmt: skip

    def remove(self, image_id: str) -> None:
        for file in (self._about(image_id), self._data(image_id)):
            file.unlink(missing_ok=True)

    def backups_like(self, image_id: str) -> tuple[str, ...]:
        names = "image_type", "backup_type", "instance_uuid"
        found = self.all()
        wanted = [found[image_id]["properties"].get(name) for name in names]
        same = [each for each in found if [found[each]["properties"].get(name) for name in names] == wanted]
        return tuple(sorted(same, key=lambda each: self._about(each).stat().st_mtime_ns, reverse=True))

    # --- used by hosts ------------------------------------------------------------------------------------------------

    @contextmanager
    def download(self, image: ImageData, start: int, *, verify: bool | str) -> Iterator[tuple[int, Iterator[bytes]]]:
        del start, verify
        try:
            data = self._data(image.image_id).read_bytes()
        except FileNotFoundError:
            raise ImageUnusable(f"Image {image.image_id} does not exist.") from None
        yield 0, iter([data])

    def upload(self, image: ImageData, data: Any, *, verify: bool | str) -> Any:
        del verify
        if not self._about(image.image_id).exists() or self._data(image.image_id).exists():
            raise ImageUnusable(f"Image {image.image_id} does not accept data.")
        whole = b"".join(data)
        self._store(image.image_id, whole)
        return {
            "size": len(whole),
            "os_hash_algo": "sha512",
            "os_hash_value": hashlib.sha512(whole).hexdigest(),
        }

    def _store(self, image_id: str, data: bytes) -> None:
        _replace(self._data(image_id), data)

    def _about(self, image_id: str) -> Path:
        return self._folder / f"{image_id}.json"

    def _data(self, image_id: str) -> Path:
        return self._folder / f"{image_id}.data"


def _replace(file: Path, data: bytes) -> None:
    """Replace a file atomically, because other processes read it."""
    draft = file.with_name(f"{file.name}-{os.getpid()}-{os.urandom(4).hex()}.new")
    try:
        draft.write_bytes(data)
        draft.replace(file)
    finally:
        with contextlib.suppress(FileNotFoundError):
            draft.unlink()
