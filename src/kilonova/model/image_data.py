# SPDX-License-Identifier: Apache-2.0
"""Where a host gets the data of an image, or brings it."""

from dataclasses import dataclass, field
from enum import StrEnum


@dataclass(frozen=True, slots=True)
class ImageData:
    """The data of one image, for one host.

    ``location``: where the host reads it itself, as the URL of a store; ``file:`` is one of a folder that it shares
    with the image service. "" where there is none; whoever does not know its scheme passes it over.
    ``url``, ``ticket``: of a control process that streams it, and what entitles the host to that for a while. Whoever
    has the ticket may do what it says, so it is not part of what is shown.
    ``size_bytes``: 0 where it is not known. ``hash_algo``, ``hash_value``: what it must hash to, in lower-case
    hexadecimal; "" where the image service does not say. ``disk_format``: what the image service says that it is,
    or wants it to be; "" from a control process that does not tell.
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
    """What came of fetching an image beforehand. ``EXISTING``: it was there; ``UNSUPPORTED``: the host keeps none."""

    CACHED = "cached"
    EXISTING = "existing"
    UNSUPPORTED = "unsupported"
    ERROR = "error"
