# SPDX-License-Identifier: Apache-2.0
"""The interface of image sources, and a source for clouds without an image service."""

from collections.abc import Iterable, Sequence
from typing import Protocol

from kilonova.errors import InvalidRequest, NotFound
from kilonova.model.image import Image
from kilonova.model.new_image import NewImage


class ImageSource(Protocol):
    """Lookup and registration of images on behalf of a user."""

    def get(self, image_id: str, *, token: str | None, project_id: str) -> Image:
        """Return an image that the token's owner may see. Raises: NotFound, Unavailable."""

    def named(self, name: str, *, token: str | None, project_id: str) -> tuple[Image, ...]:
        """Return the images named ``name`` that the token's owner may see. Raises: Unavailable."""

    def list(self, *, token: str | None) -> Sequence[Image]:
        """Return every image that the token's owner may see, hidden ones included. Raises: Unavailable."""

    def create(self, image: NewImage, *, token: str | None) -> None:
        """Register a private image, without data, that belongs to the token's project.

        Raises: InvalidRequest, Forbidden (also if over quota), Conflict, Unavailable.
        """


class FixedImages:
    """A fixed set of images, public to everyone."""

    def __init__(self, images: Iterable[Image]) -> None:
        self._images = {image.id: image for image in images}

    def get(self, image_id: str, *, token: str | None, project_id: str) -> Image:
        del token, project_id
        try:
            return self._images[image_id]
        except KeyError:
            raise NotFound(f"Image {image_id} could not be found.") from None

    def named(self, name: str, *, token: str | None, project_id: str) -> tuple[Image, ...]:
        del token, project_id
        return tuple(image for image in self._images.values() if image.name == name)

    def list(self, *, token: str | None) -> Sequence[Image]:
        del token
        return tuple(self._images.values())

    def create(self, image: NewImage, *, token: str | None) -> None:
        del image, token
        raise InvalidRequest("No image service is configured: no image of a server can be created.")
