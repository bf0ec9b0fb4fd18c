# SPDX-License-Identifier: Apache-2.0
"""An image that a host keeps."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CachedImage:
    """``name``: of its file. ``image_id``: "" for what is no image but made for several guests: an empty file system.

    ``disk_format``: "" where it is kept as it came. ``size_bytes``: the room that it takes. ``unused_s``: seconds since
    a guest was last made of it, or the host last saw that one needs it.
    ``guests``: those that need it, by instance uuid.
    """

    name: str
    image_id: str = ""
    disk_format: str = ""
    size_bytes: int = 0
    unused_s: int = 0
    guests: tuple[str, ...] = ()


def image_metric(image_id: str) -> str:
    """Return the name of the metric by which a host says that it keeps an image: it is 1."""
    return f"image.{image_id}"
