# SPDX-License-Identifier: Apache-2.0
"""Interfaces for reading and writing image data through a control process."""

from collections.abc import Iterator
from typing import Protocol

from kilonova.records import dataclass


class Body(Protocol):
    """The body of an upload. ``read`` raises OSError if the body breaks off before its end."""

    def read(self, size: int) -> bytes: ...


@dataclass(frozen=True, slots=True)
class Stored:
    """Size and checksum of an image, as the image service reports them after an upload."""

    size_bytes: int
    hash_algo: str
    hash_value: str


class Download(Protocol):
    """The data of an image from byte ``start`` on. Iterating raises OSError if the transfer breaks off.

    ``size_bytes``: bytes of this download. ``content_range``: the Content-Range header. Both may be None, if the image
    store does not send them.
    """

    @property
    def start(self) -> int: ...

    @property
    def size_bytes(self) -> int | None: ...

    @property
    def content_range(self) -> str | None: ...

    def __iter__(self) -> Iterator[bytes]: ...

    def close(self) -> None:
        """Release the connection, even if data is left unread."""


class ImageStore(Protocol):
    """A store of image data."""

    def read(self, image_id: str, start: int = 0) -> Download:
        """Open a download of image data. The download starts at byte 0 if the store cannot start at ``start``.

        Raises: NotFound, Forbidden, Conflict for an image without data, Unavailable.
        """

    def write(self, image_id: str, body: Body, size_bytes: int | None) -> Stored:
        """Store the data of an image. After a broken upload the image has no data and accepts a new upload.

        Raises: NotFound, Forbidden, Conflict for an image that has data, Unavailable; any error raised by ``body``.
        """
