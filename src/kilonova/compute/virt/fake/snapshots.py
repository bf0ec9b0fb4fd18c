# SPDX-License-Identifier: Apache-2.0
"""Disks of guests of a simulated hypervisor become images, byte by byte; images are fetched beforehand."""

import logging

from kilonova.compute.virt.base import SnapshotMonitor
from kilonova.compute.virt.fake.hypervisor import SimulatedHypervisor
from kilonova.errors import DriverError, Unsupported
from kilonova.model.cached_image import CachedImage
from kilonova.model.image_data import CacheResult, ImageData

LOG = logging.getLogger(__name__)


class Snapshots(SimulatedHypervisor):
    """Copies disks and uploads the copies."""

    def snapshot(self, uuid: str, image_id: str, base: ImageData | None, monitor: SnapshotMonitor) -> None:
        self._take(self._host.snapshot_delay_s)
        monitor.check()
        with self._lock:
            self._present(uuid)
            if self._is_to_fail("snapshot"):
                raise DriverError(f"Simulated failure to take a snapshot of guest {uuid}.")
        disk = self._disks.find(uuid)
        if disk is None:  # made by an earlier release, or brought here by a move from another process
            if self._images is None or base is None:
                raise DriverError(f"Host {self._host.name} has nothing of the disk of guest {uuid}.")
            disk = self._images.fetch(base)
            self._disks.make(uuid, disk)
        self._disks.copy(uuid, image_id, disk, monitor.check)

    def upload_snapshot(self, uuid: str, image: ImageData, monitor: SnapshotMonitor) -> None:
        if self._disks.copies.has_brought(uuid, image.image_id):
            self._disks.copies.note_brought(uuid, image.image_id)
            return
        copy = self._disks.copies.copied(uuid, image.image_id)
        if copy is None or self._images is None:
            raise DriverError(f"Host {self._host.name} has no snapshot of guest {uuid} for image {image.image_id}.")
        monitor.check()
        self._images.upload(image, copy, monitor.check)
        self._disks.copies.note_brought(uuid, image.image_id)

    def discard_snapshot(self, uuid: str) -> None:
        self._disks.copies.discard(uuid)

    def cache_image(self, image: ImageData) -> CacheResult:
        if self._images is None:
            return CacheResult.UNSUPPORTED
        if self._images.has(image):
            return CacheResult.EXISTING
        try:
            self._images.fetch(image)
        except DriverError as error:
            LOG.warning("Host %s: %s", self._host.name, error.message)
            return CacheResult.ERROR
        return CacheResult.CACHED

    def cached_images(self) -> tuple[CachedImage, ...]:
        if self._images is None:
            raise Unsupported(f"Host {self._host.name} keeps no images.")
        users = self._disks.users()
        return self._images.list(lambda _name, stat: users.get(stat.st_ino, ()))
