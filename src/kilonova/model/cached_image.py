# SPDX-License-Identifier: Apache-2.0
"""Images in the image cache of a host."""

from kilonova.records import dataclass


@dataclass(frozen=True, slots=True)
class CachedImage:
    """An entry of a host's image cache.

    ``name``: file name. ``image_id``: "" if the entry is not an image but an empty file system that guests share as
    backing file. ``disk_format``: "" if the file was not converted. ``size_bytes``: disk space used. ``unused_s``:
    seconds since the last use of the image: a guest was created from it, or a check found a guest that uses it.
    ``guests``: instance uuids of the guests that use the image.
    """

    name: str
    image_id: str = ""
    disk_format: str = ""
    size_bytes: int = 0
    unused_s: int = 0
    guests: tuple[str, ...] = ()


def image_metric(image_id: str) -> str:
    """Return the name of the metric by which a host reports that it has cached an image. The metric's value is 1."""
    return f"image.{image_id}"
