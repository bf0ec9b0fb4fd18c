# SPDX-License-Identifier: Apache-2.0
"""Sources from which a host downloads the data of an image, and destinations to which it uploads."""

from dataclasses import dataclass, field
from enum import StrEnum


@dataclass(frozen=True, slots=True)
class ImageData:
    """Location of one image's data for one host.

    ``location``: URL in an image store that the host reads directly, "" for none. ``file:`` is a directory shared with
    the image service; a host ignores a scheme that it does not know.
    ``url``: URL of the control process that streams the data. ``ticket``: short-lived credential for that URL; it
    grants access to its bearer, so ``repr`` hides it.
    ``size_bytes``: 0 if unknown. ``hash_algo``, ``hash_value``: expected hash in lower-case hexadecimal, "" if the
    image service reports none. ``disk_format``: the image's format, or the format of an upload; "" from a control
    process that does not send it.
    """

    image_id: str
    location: str = ""
    url: str = ""
    ticket: str = field(default="", repr=False)
    size_bytes: int = 0
    hash_algo: str = ""
    hash_value: str = ""
    disk_format: str = ""


class CacheResult(StrEnum):
    """Result of fetching an image in advance.

    ``EXISTING``: it was cached already; ``UNSUPPORTED``: the host has no image cache.
    """

    CACHED = "cached"
    EXISTING = "existing"
    UNSUPPORTED = "unsupported"
    ERROR = "error"
