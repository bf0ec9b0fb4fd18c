# SPDX-License-Identifier: Apache-2.0
"""Disks of real guests become images, while the guests run if they do; images are fetched beforehand."""

import logging

from kilonova.compute.virt.base import SnapshotMonitor
from kilonova.compute.virt.libvirt.hypervisor import LibvirtHost
from kilonova.errors import DriverError, Unsupported
from kilonova.model.cached_image import CachedImage
from kilonova.model.image_data import CacheResult, ImageData

LOG = logging.getLogger(__name__)
_NOT_YET = "Guests of libvirt hosts do not become images yet."


class Snapshots(LibvirtHost):
    """Copies disks and uploads the copies."""

    def snapshot(self, uuid: str, image_id: str, base: ImageData | None, monitor: SnapshotMonitor) -> None:
        del image_id, base, monitor
        self._domains.get(uuid)
        raise Unsupported(_NOT_YET)

    def upload_snapshot(self, uuid: str, image: ImageData, monitor: SnapshotMonitor) -> None:
        del uuid, image, monitor
        raise Unsupported(_NOT_YET)

    def discard_snapshot(self, uuid: str) -> None:
        del uuid

    def cache_image(self, image: ImageData) -> CacheResult:
        if self._disks.bases.has(image):
            return CacheResult.EXISTING
        try:
            with self._disks.bases.use(image):
                return CacheResult.CACHED
        except DriverError as error:
            LOG.warning("Host %s: %s", self._setup.host, error.message)
            return CacheResult.ERROR

    def cached_images(self) -> tuple[CachedImage, ...]:
        return self._disks.cached_images()
