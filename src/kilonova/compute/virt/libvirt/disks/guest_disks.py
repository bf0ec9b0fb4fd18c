# SPDX-License-Identifier: Apache-2.0
"""Disks of the guests of a host, in the layout that operators know from Nova.

::

    INSTANCES/UUID/          a guest: disk, disk.eph0, disk.swap, disk.config, console.log;
                             during a rescue also disk.rescue, disk.config.rescue
    INSTANCES/UUID_resize/   a guest that is kept for a move
    INSTANCES/UUID.part/     a folder that is being made
    INSTANCES/UUID.gone/     a folder that is being removed
    INSTANCES/_base/         base images
"""

import contextlib
import logging
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kilonova.compute.files.folders import let_through, make_folder
from kilonova.compute.files.images import HostImages
from kilonova.compute.virt.libvirt.disks.base_images import BaseImages
from kilonova.compute.virt.libvirt.disks.disk_maker import DiskMaker, remove_rescue
from kilonova.compute.virt.libvirt.disks.disk_records import OF_RESCUES, DiskRecord, read_record, write_record
from kilonova.compute.virt.libvirt.disks.resizes import copied, resized
from kilonova.compute.virt.libvirt.domain.description import DiskFile
from kilonova.config.libvirt import LibvirtSettings
from kilonova.errors import DriverError, GuestMissing
from kilonova.model.cached_image import CachedImage
from kilonova.model.image_data import ImageData
from kilonova.model.instance import GuestSpec

LOG = logging.getLogger(__name__)
_KEPT, _DRAFT, _GONE = "_resize", ".part", ".gone"
_ABANDONED_S = 86_400.0


class GuestDisks:
    """The disks of all guests of a host. ``folder``: path of the folder INSTANCES. ``images``: the image cache."""

    def __init__(self, folder: Path, images: HostImages, settings: LibvirtSettings) -> None:
        self._folder = folder
        self.bases = BaseImages(images, settings)
        self._maker = DiskMaker(self.bases, settings)
        let_through(folder)
        self._remove_abandoned()

    def folder(self, uuid: str) -> Path:
        """Return the folder of a guest: its disks, records and console log."""
        return self._folder / uuid

    def kept_folder(self, uuid: str) -> Path:
        """Return the folder of a kept guest."""
        return self._folder / f"{uuid}{_KEPT}"

    def present(self, uuid: str) -> tuple[DiskFile, ...]:
        """Return the disks of a guest, except rescue disks; empty if it has none on this host. Raises: DriverError."""
        record = read_record(self.folder(uuid))
        return () if record is None else record.files(self.folder(uuid))

    def cached_images(self) -> tuple[CachedImage, ...]:
        """Return the base images, each with the guests whose disks need it. Raises: DriverError."""
        return self.bases.list(self._folder)

    def fetch(self, guest: GuestSpec) -> None:
        """Download and check the image of a guest, unless its base image exists. Raises: DriverError, ImageUnusable."""
        if guest.image is not None:
            with self.bases.use(guest.image, guest.root_gib):
                pass

    def make(self, guest: GuestSpec) -> tuple[DiskFile, ...]:
        """Make the disks of a guest in place of its old disks, unless an earlier delivery of this order has made them.

        Raises: DriverError, ImageUnusable; then the old disks are unchanged.
        """
        folder, draft = self.folder(guest.uuid), self._draft(guest.uuid)
        with self._doing("make", guest.uuid):
            if not _is_of(folder, guest):
                with self._drafted(draft):
                    record = self._maker.root(draft, DiskRecord(ordered_at=guest.ordered_at), guest)
                    record = self._maker.ephemeral(draft, record, guest)
                    if guest.swap_mib:
                        record = self._maker.swap(draft, record, guest)
                    write_record(draft, self._maker.config(draft, record, guest), is_draft=True)
                    self._put(draft, folder)
        return self.present(guest.uuid)

    def remove(self, uuid: str) -> None:
        """Remove all disks of a guest, including its kept disks; no error if absent. Raises: DriverError."""
        self.drop_kept(uuid)
        self.remove_made(uuid)

    # --- rescues ------------------------------------------------------------------------------------------------------

    def make_rescue(self, guest: GuestSpec, image: ImageData) -> tuple[DiskFile, ...]:
        """Make or replace the rescue disks of a guest, and return them. The guest's own disks are not changed.

        Raises: DriverError, ImageUnusable.
        """
        folder = self.folder(guest.uuid)
        with self._doing("make", guest.uuid):
            record = self._maker.rescue(folder, self._record(guest.uuid), guest, image)
            write_record(folder, record)
        return tuple(disk.in_folder(folder) for disk in record.disks if disk.role in OF_RESCUES)

    def drop_rescue(self, uuid: str) -> None:
        """Remove the rescue disks of a guest; no error if absent. Raises: DriverError."""
        folder = self.folder(uuid)
        with self._doing("remove", uuid):
            remove_rescue(folder)
            record = read_record(folder)
            if record is not None and any(disk.role in OF_RESCUES for disk in record.disks):
                write_record(folder, record.without(*OF_RESCUES))

    # --- moves --------------------------------------------------------------------------------------------------------

    def keep(self, uuid: str) -> None:
        """Keep the disks of a guest for a move; no error if already kept. Raises: GuestMissing, DriverError."""
        with self._doing("keep", uuid):
            if not self.kept_folder(uuid).exists():
                self._record(uuid)
                self._rename(self.folder(uuid), self.kept_folder(uuid))

    def kept(self) -> frozenset[str]:
        """Return the uuids of guests with kept disks."""
        return frozenset(folder.name.removesuffix(_KEPT) for folder in self._folder.glob(f"*{_KEPT}"))

    def take_back(self, uuid: str) -> tuple[DiskFile, ...]:
        """Put the kept disks of a guest in place of the disks that a move made; do nothing if no disks are kept.

        Raises: DriverError.
        """
        with self._doing("keep", uuid):
            if self.kept_folder(uuid).exists():
                self._discard(self.folder(uuid))
                self._rename(self.kept_folder(uuid), self.folder(uuid))
        return self.present(uuid)

    def drop_kept(self, uuid: str) -> None:
        """Remove the kept disks of a guest; no error if absent. Raises: DriverError."""
        with self._doing("remove", uuid):
            self._discard(self.kept_folder(uuid))

    def make_of_kept(self, guest: GuestSpec) -> tuple[DiskFile, ...]:
        """Make the disks of a resized guest: copies of the kept disks, enlarged to the flavor's sizes.

        The copies have the same base images as the kept disks.
        Raises: GuestMissing, UnsupportedGuest, DriverError; then no new disks are left.
        """
        folder, draft = self.folder(guest.uuid), self._draft(guest.uuid)
        with self._doing("copy", guest.uuid):
            if not _is_of(folder, guest):
                kept = read_record(self.kept_folder(guest.uuid))
                if kept is None:
                    raise GuestMissing(guest.uuid)
                with self._drafted(draft):
                    record = copied(self.kept_folder(guest.uuid), draft, kept, guest.ordered_at)
                    resized(draft, record, guest, self._maker)
                    self._put(draft, folder)
        return self.present(guest.uuid)

    def remove_made(self, uuid: str) -> None:
        """Remove the disks of a guest, except its kept disks; no error if absent. Raises: DriverError."""
        with self._doing("remove", uuid):
            self._discard(self._draft(uuid))
            self._discard(self.folder(uuid))

    # --- folders ------------------------------------------------------------------------------------------------------

    def _draft(self, uuid: str) -> Path:
        return self._folder / f"{uuid}{_DRAFT}"

    def _record(self, uuid: str) -> DiskRecord:
        record = read_record(self.folder(uuid))
        if record is None:
            raise GuestMissing(uuid)
        return record

    @contextmanager
    def _doing(self, what: str, uuid: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise DriverError(f"The host cannot {what} the disks of guest {uuid}: {error.strerror}.") from error

    @contextmanager
    def _drafted(self, draft: Path) -> Iterator[None]:
        """Make an empty draft folder, which is removed after the block unless it was renamed."""
        self._discard(draft)
        make_folder(draft)
        try:
            yield
        finally:
            shutil.rmtree(draft, ignore_errors=True)

    def _put(self, draft: Path, folder: Path) -> None:
        """Sync a complete draft folder and move it to its final name, replacing the old folder."""
        for file in draft.iterdir():
            _sync(file)
        _sync(draft)
        self._discard(folder)
        self._rename(draft, folder)

    def _rename(self, before: Path, after: Path) -> None:
        before.replace(after)
        _sync(self._folder)

    def _discard(self, folder: Path) -> None:
        """Remove a folder. It is renamed first, so that a crash leaves no incomplete folder with the original name."""
        gone = folder.with_name(f"{folder.name}{_GONE}")
        if gone.exists():
            shutil.rmtree(gone)
        if folder.exists():
            shutil.rmtree(folder.rename(gone))

    def _remove_abandoned(self) -> None:
        """Remove old drafts and half-removed folders. Another process may still use a folder younger than a day."""
        for ending in (_DRAFT, _GONE):
            for folder in self._folder.glob(f"*{ending}"):
                with contextlib.suppress(OSError):
                    if folder.is_dir() and time.time() - folder.stat().st_mtime > _ABANDONED_S:
                        LOG.warning("Removing abandoned folder %s", folder)
                        shutil.rmtree(folder)


def _is_of(folder: Path, guest: GuestSpec) -> bool:
    record = read_record(folder)
    return record is not None and record.ordered_at == guest.ordered_at


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
