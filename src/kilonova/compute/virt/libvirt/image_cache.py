# SPDX-License-Identifier: Apache-2.0
"""Cached base images of a libvirt host."""

import logging

from kilonova.compute.virt.libvirt.hypervisor import LibvirtHost
from kilonova.errors import DriverError
from kilonova.model.cached_image import CachedImage
from kilonova.model.image_data import CacheResult, ImageData
from kilonova.records import dataclass

LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, eq=False)
class ImageCache:
    """Downloads images before a guest needs them, and lists the cached images."""

    host: LibvirtHost

    def cache_image(self, image: ImageData) -> CacheResult:
        if self.host.disks.bases.has(image):
            return CacheResult.EXISTING
        try:
            with self.host.disks.bases.use(image):
                return CacheResult.CACHED
        except DriverError as error:
            LOG.warning("Host %s: %s", self.host.setup.host, error.message)
            return CacheResult.ERROR

    def cached_images(self) -> tuple[CachedImage, ...]:
        return self.host.disks.cached_images()
