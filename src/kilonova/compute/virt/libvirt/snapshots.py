# SPDX-License-Identifier: Apache-2.0
"""Disks of real guests become images, while the guests run if they do; images are fetched beforehand."""

import logging

from kilonova.compute.virt.base import SnapshotMonitor
from kilonova.compute.virt.libvirt.domain.description import DiskFile, DiskRole
from kilonova.compute.virt.libvirt.hypervisor import LibvirtHost
from kilonova.compute.virt.libvirt.live_copies import copy_of_running
from kilonova.errors import DriverError
from kilonova.model.cached_image import CachedImage
from kilonova.model.image_data import CacheResult, ImageData
from kilonova.model.instance import PowerState

LOG = logging.getLogger(__name__)
_AWAKE = (PowerState.RUNNING, PowerState.PAUSED)


class Snapshots(LibvirtHost):
    """Copies disks and uploads the copies."""

    def snapshot(self, uuid: str, image_id: str, base: ImageData | None, monitor: SnapshotMonitor) -> None:
        del base  # a disk is whole here, or it is not here at all
        domain = self._domains.get(uuid)
        root = next((disk for disk in self._disks.present(uuid) if disk.role is DiskRole.ROOT), None)
        if root is None:
            raise DriverError(f"The host has nothing of the disk of guest {uuid}.")
        if self._copies.is_done(uuid, image_id):
            return
        monitor.check()
        if domain.power_state() not in _AWAKE:
            self._copies.copy_for_image(uuid, image_id, root, monitor.check)
            return
        with self._copies.scratch(uuid) as scratch:
            copy_of_running(domain, root.path, scratch, monitor)
            self._copies.copy_for_image(uuid, image_id, DiskFile(DiskRole.ROOT, scratch, "qcow2"), monitor.check)

    def upload_snapshot(self, uuid: str, image: ImageData, monitor: SnapshotMonitor) -> None:
        if not self._copies.has_brought(uuid, image.image_id):
            monitor.check()
            copy = self._copies.for_upload(uuid, image.image_id, monitor.check, disk_format=image.disk_format)
            self._setup.images.upload(image, copy, monitor.check)
        self._copies.note_brought(uuid, image.image_id)

    def discard_snapshot(self, uuid: str) -> None:
        self._copies.discard(uuid)

    def cached_images(self) -> tuple[CachedImage, ...]:
        return self._disks.cached_images()

    def cache_image(self, image: ImageData) -> CacheResult:
        if self._disks.bases.has(image):
            return CacheResult.EXISTING
        try:
            with self._disks.bases.use(image):
                return CacheResult.CACHED
        except DriverError as error:
            LOG.warning("Host %s: %s", self._setup.host, error.message)
            return CacheResult.ERROR
