# SPDX-License-Identifier: Apache-2.0
"""Images as the compute API shows and changes them (the deprecated image proxy API)."""

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Protocol

from kilonova.errors import InvalidRequest, NotFound
from kilonova.images.source import ImageSource
from kilonova.records import dataclass


@dataclass(frozen=True, slots=True)
class ProxiedImage:
    """An image with the attributes that users see. Units: MiB, GiB, bytes; times as the image service writes them."""

    id: str
    name: str | None = None
    status: str = "active"
    min_memory_mib: int = 0
    min_disk_gib: int = 0
    size_bytes: int = 0
    properties: Mapping[str, str] = field(default_factory=dict)
    created_at: str | None = None
    updated_at: str | None = None


@dataclass(frozen=True, slots=True)
class ImageFilter:
    """A filter for listing images. A field that is None, or empty ``properties``, does not restrict the list.

    ``changed_since``: a time in the form in which the client wrote it.
    """

    name: str | None = None
    status: str | None = None
    min_memory_mib: str | None = None
    min_disk_gib: str | None = None
    changed_since: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)


class ImageProxy(Protocol):
    """Image operations with the token of a user; the image service decides what the user may do."""

    def page(self, wanted: ImageFilter, *, limit: int, marker: str | None, token: str | None) -> Sequence[ProxiedImage]:
        """Return at most ``limit`` images, starting after ``marker``. Raises: InvalidRequest, Unavailable."""

    def get(self, image_id: str, *, token: str | None) -> ProxiedImage:
        """Return an image. Raises: NotFound, Unavailable."""

    def remove(self, image_id: str, *, token: str | None) -> None:
        """Remove an image. Raises: NotFound, Forbidden, Conflict while it is in use, Unavailable."""

    def set_properties(self, image: ProxiedImage, properties: Mapping[str, str], *, token: str | None) -> None:
        """Replace all properties of an image with ``properties``.

        Raises: NotFound, Forbidden, Conflict, InvalidRequest, Unavailable.
        """


class FixedImageProxy:
    """A read-only set of images, for a cloud without an image service."""

    def __init__(self, images: ImageSource) -> None:
        self._images = images

    def page(self, wanted: ImageFilter, *, limit: int, marker: str | None, token: str | None) -> Sequence[ProxiedImage]:
        found = [image for image in self._all(token) if _fits(image, wanted)]
        ids = [image.id for image in found]
        if marker is not None and marker not in ids:
            raise InvalidRequest(f"marker [{marker}] not found", field="marker")
        start = 0 if marker is None else ids.index(marker) + 1
        return found[start : start + limit]

    def get(self, image_id: str, *, token: str | None) -> ProxiedImage:
        for image in self._all(token):
            if image.id == image_id:
                return image
        raise NotFound(f"Image {image_id} could not be found.")

    def remove(self, image_id: str, *, token: str | None) -> None:
        self.get(image_id, token=token)
        raise _unchangeable()

    def set_properties(self, image: ProxiedImage, properties: Mapping[str, str], *, token: str | None) -> None:
        del image, properties, token
        raise _unchangeable()

    def _all(self, token: str | None) -> Sequence[ProxiedImage]:
        return [
            ProxiedImage(
                image.id,
                image.name,
                image.status,
                image.min_memory_mib,
                image.min_disk_gib,
                image.size_bytes,
                image.properties,
            )
            for image in self._images.list(token=token)
        ]


def _fits(image: ProxiedImage, wanted: ImageFilter) -> bool:
    pairs = (
        (wanted.name, image.name),
        (wanted.status, image.status),
        (wanted.min_memory_mib, str(image.min_memory_mib)),
        (wanted.min_disk_gib, str(image.min_disk_gib)),
        *((value, image.properties.get(name)) for name, value in wanted.properties.items()),
    )
    return all(value is None or value == present for value, present in pairs)


def _unchangeable() -> InvalidRequest:
    return InvalidRequest("No image service is configured: the images of this cloud cannot be changed.")
