# SPDX-License-Identifier: Apache-2.0
"""The images of a host: each is fetched once, checked, and kept in a folder; and the way of new ones to the cloud.

A file under its final name is whole and has been checked. What is being fetched has another name, which nobody reads.
"""

import contextlib
import errno
import hashlib
import logging
import os
import random
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import IO, Any, Protocol
from urllib.parse import quote, unquote, urlsplit

from kilonova.errors import DriverError, ImageUnusable, TransferBroken, TransferPostponed
from kilonova.model.image_data import ImageData

LOG = logging.getLogger(__name__)
_PIECE = 1 << 20
_PAUSE_S, _LONGEST_PAUSE_S, _DOUBLED = 0.5, 8.0, 4
_UNFINISHED = ".part"


class ImageTransfers(Protocol):
    """How image data comes to a host and goes from it."""

    def download(
        self, image: ImageData, start: int, *, verify: bool | str
    ) -> AbstractContextManager[tuple[int, Iterator[bytes]]]:
        """Give the data of an image, and where it begins: at ``start``, or at 0. Raises: TransferBroken, …"""

    def upload(self, image: ImageData, data: Any, *, verify: bool | str) -> Any:
        """Bring the data of an image; return what the image service has of it. Raises: TransferBroken, …"""


class HostImages:
    """The images that a host keeps in ``folder``, at most ``max_bytes`` of them beside the newest.

    ``retries``: how often a transfer is tried again. ``verify``: how the control plane's certificate is checked.
    ``transfers``: how data comes and goes; None stands for HTTP.
    """

    def __init__(
        self,
        folder: Path,
        *,
        max_bytes: int,
        retries: int = 3,
        verify: bool | str = True,
        sleep: Callable[[float], None] = time.sleep,
        transfers: ImageTransfers | None = None,
    ) -> None:
        self._folder = folder
        self._max_bytes = max_bytes
        self._retries = retries
        self._verify = verify
        self._sleep = sleep
        self._given_transfers = transfers
        self._lock = threading.Lock()
        self._fetching: dict[Path, threading.Lock] = {}

    def fetch(self, image: ImageData) -> Path:
        """Return the file of an image, which is fetched unless it is there.

        Raises: DriverError; ImageUnusable, which says that it is not the host's fault.
        """
        file = self._folder / _name_of(image)
        if self._is_there(file):
            return file
        with self._lock:
            fetching = self._fetching.setdefault(file, threading.Lock())
        with fetching:
            if self._is_there(file):
                return file
            try:
                self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                self._fetch_into(file, image)
                self._make_room(file)
            except OSError as error:
                raise DriverError(f"The host cannot store image {image.image_id}: {error.strerror}.") from error
        with self._lock:
            self._fetching.pop(file, None)
        return file

    def has(self, image: ImageData) -> bool:
        """Tell whether an image is there; one that is asked for is one that is used."""
        return self._is_there(self._folder / _name_of(image))

    def forget_unused(self, min_age_s: float) -> tuple[str, ...]:
        """Remove the images that no guest is made of, and that nobody has used for so long; return their names."""
        gone: list[str] = []
        now = time.time()
        for name, stat, path in self._all():
            if stat.st_nlink > 1:
                os.utime(path)
            elif now - stat.st_mtime > min_age_s:
                path.unlink(missing_ok=True)
                gone.append(name)
        return tuple(gone)

    def upload(self, image: ImageData, file: Path, check: Callable[[], None] = lambda: None) -> None:
        """Bring the data of an image that has none yet.

        ``check`` is called between pieces, and what it raises ends the upload. Raises: DriverError; ImageUnusable.
        """

        def send() -> Any:
            with file.open("rb") as data:
                return self._transfers.upload(image, _Watched(data, file.stat().st_size, check), verify=self._verify)

        try:
            stored = self._until_done(image, send)
            if stored["size"] != file.stat().st_size or not _hashes_to(file, stored):
                raise ImageUnusable(f"Image {image.image_id} did not arrive as it was sent.")
        except OSError as error:
            raise DriverError(f"The host cannot read what becomes image {image.image_id}: {error.strerror}.") from error

    @property
    def _transfers(self) -> ImageTransfers:
        if self._given_transfers is not None:
            return self._given_transfers
        from kilonova.compute import image_transfers  # noqa: PLC0415 - brings an HTTP client

        return image_transfers

    # --- one image ----------------------------------------------------------------------------------------------------

    def _is_there(self, file: Path) -> bool:
        """Tell whether a file is there; one that is asked for is one that is used."""
        try:
            os.utime(file)
        except OSError:
            return False
        return True

    def _fetch_into(self, file: Path, image: ImageData) -> None:
        with _draft(file) as draft:
            taken = _Draft(draft, image)
            if not self._copied(taken, image):
                self._until_done(image, lambda: self._download(taken, image))
            taken.require_whole()
            draft.flush()
            os.fsync(draft.fileno())
            Path(draft.name).replace(file)
        LOG.info("Image %s is here: %d bytes", image.image_id, taken.size)

    def _copied(self, taken: "_Draft", image: ImageData) -> bool:
        """Take an image from a folder that the host shares with the image service; tell whether it is there."""
        url = urlsplit(image.location)
        if url.scheme != "file":
            return False
        try:
            with Path(unquote(url.path)).open("rb") as data:
                while piece := data.read(_PIECE):
                    taken.add(piece)
            taken.require_whole()
        except (OSError, ImageUnusable) as error:
            if isinstance(error, OSError) and error.errno in {errno.ENOSPC, errno.EDQUOT}:
                raise
            LOG.warning("Image %s cannot be had from %s: %s", image.image_id, url.path, error)
            taken.begin_anew()
            if not image.url:
                raise DriverError(f"The host has no way to image {image.image_id}.") from error
            return False
        return True

    def _download(self, taken: "_Draft", image: ImageData) -> None:
        """Take the rest of an image from a control process. Raises: TransferBroken, ImageUnusable."""
        with self._transfers.download(image, taken.size, verify=self._verify) as (start, pieces):
            if start != taken.size:
                taken.begin_anew()
            for piece in pieces:
                taken.add(piece)

    def _until_done(self, image: ImageData, transfer: Callable[[], Any]) -> Any:
        """Do it, again where it breaks. To wait for others is no try, and ends at the latest with the ticket."""
        tries = waits = 0
        while True:
            try:
                return transfer()
            except TransferPostponed:
                waits += 1
            except TransferBroken as error:
                tries += 1
                if tries > self._retries:
                    raise DriverError(f"Image {image.image_id} could not be transferred.") from error
                LOG.warning("Image %s: %s Trying again.", image.image_id, error.message)
            longest = min(_PAUSE_S * 2 ** min(tries + waits, _DOUBLED), _LONGEST_PAUSE_S)
            self._sleep(random.uniform(longest / 2, longest))

    # --- all of them --------------------------------------------------------------------------------------------------

    def _make_room(self, newest: Path) -> None:
        """Remove the images that were used longest ago, as far as all of them are too much.

        Of one that a guest is made of, nothing would be gained.
        """
        found = [each for each in self._all() if each[0] != newest.name]
        room = self._max_bytes - newest.stat().st_size - sum(stat.st_size for _, stat, _ in found)
        for _, stat, path in sorted(found, key=lambda each: each[1].st_mtime):
            if room >= 0:
                return
            if stat.st_nlink == 1:
                path.unlink(missing_ok=True)
                room += stat.st_size

    def _all(self) -> Iterator[tuple[str, os.stat_result, Path]]:
        """Yield the files of all images, with their names. Disks of guests are further names of such a file."""
        with contextlib.suppress(FileNotFoundError), os.scandir(self._folder) as entries:
            for entry in entries:
                with contextlib.suppress(FileNotFoundError):
                    if not entry.name.endswith(_UNFINISHED):
                        yield entry.name, entry.stat(), Path(entry.path)


class _Watched:
    """A file on its way to the control plane. ``len``: as HTTP clients ask for it."""

    def __init__(self, file: IO[bytes], size: int, check: Callable[[], None]) -> None:
        self._file = file
        self._check = check
        self.len = size

    def read(self, size: int = _PIECE) -> bytes:
        self._check()
        return self._file.read(size)

    def __iter__(self) -> Iterator[bytes]:
        return iter(self.read, b"")


class _Draft:
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


@contextmanager
def _draft(file: Path) -> Iterator[IO[bytes]]:
    """Give a file beside ``file`` that is gone afterwards, unless it was renamed."""
    with tempfile.NamedTemporaryFile(dir=file.parent, prefix=file.name, suffix=_UNFINISHED, delete=False) as draft:
        try:
            yield draft
        finally:
            Path(draft.name).unlink(missing_ok=True)


def _name_of(image: ImageData) -> str:
    """Return the name of the file of an image. Other data has another name."""
    return ".".join(filter(None, (quote(image.image_id, safe=""), image.hash_value[:32])))


def _hash_of(algorithm: str) -> Any:
    """Return what hashes, None where the image service does not say how or this machine does not know that."""
    if algorithm not in hashlib.algorithms_available:
        return None
    return hashlib.new(algorithm, usedforsecurity=False)


def _hashes_to(file: Path, stored: Any) -> bool:
    if _hash_of(stored["os_hash_algo"]) is None:
        return True
    with file.open("rb") as data:
        digest = hashlib.file_digest(data, lambda: _hash_of(stored["os_hash_algo"]))
    return digest.hexdigest() == str(stored["os_hash_value"])
