# SPDX-License-Identifier: Apache-2.0
"""The data of images as it passes through a control process, and who has it."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol


class Body(Protocol):
    """What is uploaded. ``read`` raises OSError when no more of it comes."""

    def read(self, size: int) -> bytes: ...


@dataclass(frozen=True, slots=True)
class Stored:
    """What the image service has after an upload."""

    size_bytes: int
    hash_algo: str
    hash_value: str


class Download(Protocol):
    """The data of an image from ``start`` on. Iterating raises OSError where it stops in the middle.

    ``size_bytes``: of what comes. ``content_range``: what the header of that name says. None where nobody says.
    """

    @property
    def start(self) -> int: ...

    @property
    def size_bytes(self) -> int | None: ...

    @property
    def content_range(self) -> str | None: ...

    def __iter__(self) -> Iterator[bytes]: ...

    def close(self) -> None:
        """Let go of it, whether all of it was read or not."""


class ImageStore(Protocol):
    """Has the data of images."""

    def read(self, image_id: str, start: int = 0) -> Download:
        """Begin to read. Where the store cannot begin at ``start``, it begins at 0.

        Raises: NotFound, Forbidden, Conflict for an image without data, Unavailable.
        """

    def write(self, image_id: str, body: Body, size_bytes: int | None) -> Stored:
        """Store the data of an image. One whose upload breaks has none afterwards, and may be uploaded anew.

        Raises: NotFound, Forbidden, Conflict for an image that has data, Unavailable; what ``body`` raises.
        """
