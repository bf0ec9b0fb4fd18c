# SPDX-License-Identifier: Apache-2.0
"""Base images: the images that disks are made of, downloaded, checked and converted once for all guests.

::

    _base/IMAGE.HASH             as downloaded, until it has been checked
    _base/IMAGE.HASH.raw         complete and checked, in the format of the suffix: raw, qcow2 or iso
    _base/ephemeral_20_ext4.raw  an empty file system of 20 GiB
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kilonova.compute.files.image_names import EPHEMERAL_PREFIX, FORMATS, name_of
from kilonova.compute.files.images import HostImages
from kilonova.compute.virt.libvirt.disks import disk_tool
from kilonova.compute.virt.libvirt.disks.disk_records import bases_by_folder
from kilonova.compute.virt.libvirt.disks.disk_tool import QCOW2, RAW
from kilonova.compute.virt.libvirt.disks.file_systems import make_file_system
from kilonova.compute.virt.libvirt.disks.image_checks import CheckedImage, checked
from kilonova.config.libvirt import LibvirtSettings
from kilonova.errors import ImageUnusable
from kilonova.model.cached_image import CachedImage
from kilonova.model.image_data import ImageData
from kilonova.records import dataclass

LOG = logging.getLogger(__name__)
_GIB = 1 << 30
_ISO = "iso"


@dataclass(frozen=True, slots=True)
class Base:
    """A base image: a file from which disks are created.

    ``format``: QEMU's name of the file's format. ``is_iso``: whether the file is a CD image.
    """

    path: Path
    format: str
    virtual_bytes: int
    is_iso: bool = False

    @property
    def name(self) -> str:
        return self.path.name


class BaseImages:
    """The base images of a host. ``images``: the image cache that stores and downloads images."""

    def __init__(self, images: HostImages, settings: LibvirtSettings) -> None:
        self._images = images
        self._settings = settings

    def has(self, image: ImageData) -> bool:
        """Tell whether the base image made from ``image`` exists already."""
        return self._find(name_of(image)) is not None

    def list(self, instances: Path) -> tuple[CachedImage, ...]:
        """Return the base images, each with the guests that use it. Raises: DriverError."""
        users: dict[str, set[str]] = {}
        for folder, names in bases_by_folder(instances):
            for name in names:
                users.setdefault(name, set()).add(folder.partition("_")[0].partition(".")[0])
        return self._images.list(lambda name, _stat: users.get(name, ()))

    @contextmanager
    def use(self, image: ImageData, root_gib: int = 0) -> Iterator[Base]:
        """Yield the base image made from ``image``.

        The base image is not removed while the block runs, nor while a disk record names it.

        ``root_gib``: size of the root disk to create; 0 for the size of the image.
        Raises: DriverError; ImageUnusable, also if the image is larger than the root disk.
        """
        name = name_of(image)
        with self._images.locked(name):  # the image is not removed while its lock is held
            base = self._find(name) or self._prepare(image, name, root_gib)
            _require_room(image, base.virtual_bytes, root_gib)
            yield base

    @contextmanager
    def ephemeral(self, gib: int, file_system: str, index: int) -> Iterator[Base]:
        """Yield a base image of ``gib`` GiB that contains an empty file system. Raises: DriverError.

        The label of the file system has the ``index`` of the disk among the guest's ephemeral disks.
        The base image is protected from removal as in :meth:`use`.
        """
        name = f"{EPHEMERAL_PREFIX}{gib}_{file_system}" + (f"_{index}" if index else "")
        with self._images.locked(name):
            yield self._find(name) or self._make_ephemeral(name, gib, file_system, f"ephemeral{index}")

    # --- single base images -------------------------------------------------------------------------------------------

    def _find(self, name: str) -> Base | None:
        for kind in FORMATS:
            path = self._images.find(f"{name}.{kind}")
            if path is not None:
                format_ = QCOW2 if kind == QCOW2 else RAW
                return Base(path, format_, disk_tool.virtual_bytes(path, format_), kind == _ISO)
        return None

    def _prepare(self, image: ImageData, name: str, root_gib: int) -> Base:
        """Download an image, check it, and convert it if its format requires that."""
        if image.disk_format in {RAW, _ISO}:
            _require_room(image, image.size_bytes, root_gib)  # reject an image that is too large before its download
        fetched = self._images.fetch_locked(image)
        try:
            found = checked(fetched, image, self._settings.vmdk_allowed_types)
        except ImageUnusable:
            fetched.unlink(missing_ok=True)
            raise
        _require_room(image, found.virtual_bytes, root_gib)
        if found.disk_format in {RAW, _ISO} or (found.disk_format == QCOW2 and not self._settings.force_raw_images):
            path = self._images.put(f"{name}.{found.disk_format}", fetched)
            return Base(path, found.qemu_format, found.virtual_bytes, found.disk_format == _ISO)
        path = self._converted(image, fetched, found, f"{name}.{RAW}")
        fetched.unlink(missing_ok=True)
        return Base(path, RAW, found.virtual_bytes)

    def _converted(self, image: ImageData, fetched: Path, found: CheckedImage, name: str) -> Path:
        capacity_bytes = self._images.capacity_bytes()
        if found.virtual_bytes > capacity_bytes:  # the image is at fault, not the host
            raise ImageUnusable(
                f"Image {image.image_id} has a virtual size of {found.virtual_bytes} bytes, but the host's file system "
                f"for images has only {capacity_bytes} bytes."
            )
        LOG.info("Converting image %s from %s to %s", image.image_id, found.disk_format, RAW)
        with self._images.draft(name) as draft:
            disk_tool.convert(fetched, found.qemu_format, draft, RAW)
            return self._images.put(name, draft)

    def _make_ephemeral(self, name: str, gib: int, file_system: str, label: str) -> Base:
        file = f"{name}.{RAW}"
        with self._images.draft(file) as draft:
            disk_tool.make_empty(draft, RAW, gib * _GIB)
            make_file_system(draft, file_system, label)
            return Base(self._images.put(file, draft), RAW, gib * _GIB)


def _require_room(image: ImageData, virtual_bytes: int, root_gib: int) -> None:
    if root_gib and virtual_bytes > root_gib * _GIB:
        raise ImageUnusable(
            f"The flavor's root disk has {root_gib} GiB ({root_gib * _GIB} bytes), which is less than the virtual size "
            f"of image {image.image_id}, {virtual_bytes} bytes."
        )
