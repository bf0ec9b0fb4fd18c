# SPDX-License-Identifier: Apache-2.0
"""Cached images of a simulated hypervisor."""

import logging

from kilonova.compute.files.images import HostImages
from kilonova.compute.virt.fake.hypervisor import SimulatedHypervisor
from kilonova.errors import DriverError, Unsupported
from kilonova.model.cached_image import CachedImage
from kilonova.model.image_data import CacheResult, ImageData
from kilonova.records import dataclass

LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, eq=False)
class ImageCache:
    """Downloads images before a guest needs them, and lists the cached images. Requires a host with an image cache."""

    hypervisor: SimulatedHypervisor

    def cache_image(self, image: ImageData) -> CacheResult:
        images = self._images()
        if images.has(image):
            return CacheResult.EXISTING
        try:
            images.fetch(image)
        except DriverError as error:
            LOG.warning("Host %s: %s", self.hypervisor.host.name, error.message)
            return CacheResult.ERROR
        return CacheResult.CACHED

    def cached_images(self) -> tuple[CachedImage, ...]:
        users = self.hypervisor.disks.users()
        return self._images().list(lambda _name, stat: users.get(stat.st_ino, ()))

    def _images(self) -> HostImages:
        if self.hypervisor.images is None:
            raise Unsupported(f"Host {self.hypervisor.host.name} has no image cache.")
        return self.hypervisor.images
