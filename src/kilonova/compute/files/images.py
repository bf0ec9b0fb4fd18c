# SPDX-License-Identifier: Apache-2.0
"""Image cache of a host: each image is downloaded once, checked, and kept in a folder. Also uploads new images.

A file under its final name is complete and checked; an unfinished download has a draft name that no reader uses.
Several processes may share the folder: a lock protects every creation and removal of a file.
"""

import contextlib
import errno
import logging
import os
import random
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from collections.abc import Set as AbstractSet
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import unquote, urlsplit

from kilonova.compute.files.file_locks import held, is_lock
from kilonova.compute.files.folders import make_folder
from kilonova.compute.files.image_names import EPHEMERAL_PREFIX, format_of, image_id_of, name_of, without_format
from kilonova.compute.files.image_streams import PIECE, ImageDraft, WatchedFile, hashes_to
from kilonova.errors import DriverError, ImageUnusable, TransferBroken, TransferPostponed
from kilonova.model.cached_image import CachedImage
from kilonova.model.image_data import ImageData

LOG = logging.getLogger(__name__)
_PAUSE_S, _LONGEST_PAUSE_S, _DOUBLED = 0.5, 8.0, 4
_UNFINISHED = ".part"
#: Age in seconds after which an unfinished download counts as abandoned.
_ABANDONED_S = 86_400.0


class ImageTransfers(Protocol):
    """Transport of image data to and from a host."""

    def download(
        self, image: ImageData, start: int, *, verify: bool | str
    ) -> AbstractContextManager[tuple[int, Iterator[bytes]]]:
        """Yield an offset, which is ``start`` or 0, and the data of an image from that offset on.

        Raises: the same exceptions as :meth:`upload`.
        """

    def upload(self, image: ImageData, data: Any, *, verify: bool | str) -> Any:
        """Upload the data of an image; return the image service's description of the image.

        Raises: TransferBroken, TransferPostponed, ImageUnusable.
        """


class HostImages:
    """The image cache of a host in ``folder``, limited to ``max_bytes``; the newest image is always kept.

    ``retries``: number of retries of a transfer. ``verify``: whether the TLS certificate of the control plane is
    checked, or the path of a CA file for the check. ``transfers``: the transport; None stands for HTTP.
    ``in_use``: returns the names of the files that guests need but have no hard link to.
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
        in_use: Callable[[], AbstractSet[str]] = frozenset,
    ) -> None:
        self._folder = folder
        self._max_bytes = max_bytes
        self._retries = retries
        self._verify = verify
        self._sleep = sleep
        self._given_transfers = transfers
        self._in_use = in_use

    def fetch(self, image: ImageData) -> Path:
        """Return the file of an image, after downloading it if it is not cached.

        Raises: DriverError; ImageUnusable if the image is at fault, not the host.
        """
        name = name_of(image)
        file = self.find(name)
        if file is not None:
            return file
        with self.locked(name):
            return self.fetch_locked(image)

    def fetch_locked(self, image: ImageData) -> Path:
        """Do the same as :meth:`fetch` while the caller holds the lock of the image."""
        name = name_of(image)
        file = self.find(name)
        if file is not None:
            return file
        with self.draft(name) as draft:
            self._fetch_into(draft, image)
            return self.put(name, draft)

    def has(self, image: ImageData) -> bool:
        """Tell whether an image is cached; if so, set its time of last use to now."""
        return self.find(name_of(image)) is not None

    def forget_unused(self, min_age_s: float, ephemeral_min_age_s: float | None = None) -> tuple[str, ...]:
        """Remove images that no guest uses and that have been unused for ``min_age_s`` seconds; return their names.

        ``ephemeral_min_age_s``: the minimum age of cached empty file systems; None for ``min_age_s``.
        Drafts of abandoned downloads are removed, too.
        Raises: DriverError if the files in use by guests cannot be determined.
        """
        in_use = self._in_use()
        gone: list[str] = []
        now = time.time()
        for name, stat, path in self._all():
            age_s = min_age_s
            if ephemeral_min_age_s is not None and name.startswith(EPHEMERAL_PREFIX):
                age_s = ephemeral_min_age_s
            if stat.st_nlink > 1 or name in in_use:
                with contextlib.suppress(FileNotFoundError):
                    os.utime(path)
            elif now - stat.st_mtime > age_s and self._remove(name):
                gone.append(name)
        for path in list(self._folder.glob(f"*{_UNFINISHED}")):
            with contextlib.suppress(FileNotFoundError):
                if now - path.stat().st_mtime > _ABANDONED_S:
                    path.unlink()
        return tuple(gone)

    def list(self, guests_of: Callable[[str, os.stat_result], Iterable[str]]) -> tuple[CachedImage, ...]:
        """Return the cached images, sorted by name.

        ``guests_of``: called with the name and the ``os.stat`` result of a file; returns the uuids of the guests that
        use the file.
        """
        now = time.time()
        return tuple(
            CachedImage(
                name,
                image_id_of(name),
                format_of(name),
                _size(stat),
                max(0, round(now - stat.st_mtime)),
                tuple(sorted(guests_of(name, stat))),
            )
            for name, stat, _ in sorted(self._all(), key=lambda each: each[0])
        )

    def upload(self, image: ImageData, file: Path, check: Callable[[], None] = lambda: None) -> None:
        """Upload a file as the data of an image that is registered without data.

        ``check`` is called for each chunk; an exception from it ends the upload. Raises: DriverError; ImageUnusable.
        """

        def send() -> Any:
            with file.open("rb") as data:
                return self._transfers.upload(image, WatchedFile(data, file.stat().st_size, check), verify=self._verify)

        try:
            stored = self._until_done(image, send)
            if stored["size"] != file.stat().st_size or not hashes_to(file, stored):
                raise ImageUnusable(f"Image {image.image_id} was corrupted on its way to the image service.")
        except OSError as error:
            raise DriverError(
                f"The host cannot read the disk copy for image {image.image_id}: {error.strerror}."
            ) from error

    @property
    def _transfers(self) -> ImageTransfers:
        if self._given_transfers is not None:
            return self._given_transfers
        from kilonova.compute.files import image_transfers  # noqa: PLC0415 - this module imports an HTTP client

        return image_transfers

    # --- single files -------------------------------------------------------------------------------------------------

    def find(self, name: str) -> Path | None:
        """Return the path of the file ``name``, or None if there is none; set the file's time of last use to now."""
        file = self._folder / name
        try:
            os.utime(file)
        except OSError:
            return None
        return file

    @contextmanager
    def locked(self, name: str) -> Iterator[None]:
        """Lock the files of an image, in all formats, against creation and removal. Raises: DriverError."""
        with self._storing(name):
            make_folder(self._folder)
            with held(self._folder, without_format(name)):
                yield

    @contextmanager
    def draft(self, name: str) -> Iterator[Path]:
        """Yield the path of an empty draft file, which is removed unless it was passed to :meth:`put`.

        Raises: DriverError.
        """
        with self._storing(name):
            descriptor, draft = tempfile.mkstemp(dir=self._folder, prefix=name, suffix=_UNFINISHED)
            os.close(descriptor)
            try:
                yield Path(draft)
            finally:
                Path(draft).unlink(missing_ok=True)

    def put(self, name: str, draft: Path) -> Path:
        """Move a complete draft to its final name, and evict old images to make room for it. Raises: OSError."""
        with draft.open("rb") as data:
            os.fsync(data.fileno())
        file = draft.replace(self._folder / name)
        os.utime(file)
        self._make_room(file)
        return file

    def capacity_bytes(self) -> int:
        """Return the size of the file system that holds the images. Raises: OSError."""
        return shutil.disk_usage(self._folder).total

    @contextmanager
    def _storing(self, name: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise DriverError(f"The host cannot store image {name}: {error.strerror}.") from error

    def _fetch_into(self, file: Path, image: ImageData) -> None:
        with file.open("r+b") as draft:
            taken = ImageDraft(draft, image)
            if not self._copied(taken, image):
                self._until_done(image, lambda: self._download(taken, image))
            taken.require_whole()
        LOG.info("Downloaded image %s: %d bytes", image.image_id, taken.size)

    def _copied(self, taken: ImageDraft, image: ImageData) -> bool:
        """Copy an image from a folder shared with the image service; return False if that is not possible."""
        url = urlsplit(image.location)
        if url.scheme != "file":
            return False
        try:
            with Path(unquote(url.path)).open("rb") as data:
                while piece := data.read(PIECE):
                    taken.add(piece)
            taken.require_whole()
        except (OSError, ImageUnusable) as error:
            if isinstance(error, OSError) and error.errno in {errno.ENOSPC, errno.EDQUOT}:
                raise
            LOG.warning("Image %s cannot be read from %s: %s", image.image_id, url.path, error)
            taken.begin_anew()
            if not image.url:
                raise DriverError(f"The host has no access to image {image.image_id}.") from error
            return False
        return True

    def _download(self, taken: ImageDraft, image: ImageData) -> None:
        """Download the remaining data of an image from a control process. Raises: TransferBroken, ImageUnusable."""
        with self._transfers.download(image, taken.size, verify=self._verify) as (start, pieces):
            if start != taken.size:
                taken.begin_anew()
            for piece in pieces:
                taken.add(piece)

    def _until_done(self, image: ImageData, transfer: Callable[[], Any]) -> Any:
        """Run a transfer, and retry it with back-off after an error.

        A transfer that a control process postpones is repeated until the ticket expires, without counting as a retry.
        """
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
                LOG.warning("Image %s: %s Retrying.", image.image_id, error.message)
            longest = min(_PAUSE_S * 2 ** min(tries + waits, _DOUBLED), _LONGEST_PAUSE_S)
            self._sleep(random.uniform(longest / 2, longest))

    # --- the cache as a whole -----------------------------------------------------------------------------------------

    def _make_room(self, newest: Path) -> None:
        """Evict the least recently used images until the cache is within its limit.

        Images that guests use are kept, since the removal of such an image frees no space.
        """
        found = [each for each in self._all() if each[0] != newest.name]
        room = self._max_bytes - _size(newest.stat()) - sum(_size(stat) for _, stat, _ in found)
        if room >= 0:
            return
        try:
            in_use = self._in_use()
        except DriverError as error:  # the guest that waits for the image is more important than the size limit
            LOG.warning("No image was evicted: %s", error.message)
            return
        for name, stat, _ in sorted(found, key=lambda each: each[1].st_mtime):
            if room >= 0:
                return
            if stat.st_nlink == 1 and name not in in_use and self._remove(name):
                room += _size(stat)

    def _remove(self, name: str) -> bool:
        """Remove a file unless a guest uses it or another thread holds its lock; return whether it was removed."""
        with held(self._folder, without_format(name), wait=False) as is_ours:
            if not is_ours or name in self._in_use():
                return False
            (self._folder / name).unlink(missing_ok=True)
            return True

    def _all(self) -> Iterator[tuple[str, os.stat_result, Path]]:
        """Yield name, status and path of each image file. Guests' disks may be hard links to these files."""
        with contextlib.suppress(FileNotFoundError), os.scandir(self._folder) as entries:
            for entry in entries:
                with contextlib.suppress(FileNotFoundError):
                    if not entry.name.endswith(_UNFINISHED) and not is_lock(entry.name) and entry.is_file():
                        yield entry.name, entry.stat(), Path(entry.path)


def _size(stat: os.stat_result) -> int:
    """Return the bytes that a file occupies on disk, without its holes and the unused rest of its last block."""
    return min(stat.st_blocks * 512, stat.st_size)
