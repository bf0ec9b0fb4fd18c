# SPDX-License-Identifier: Apache-2.0
"""Locations from which a host downloads the data of an image, or to which it uploads the data."""

from dataclasses import field
from enum import StrEnum

from kilonova.records import dataclass


@dataclass(frozen=True, slots=True)
class ImageData:
    """Location of one image's data for one host.

    ``location``: URL at which the host can read the data directly from the image store, "" for none. ``file:`` is the
    scheme for a directory that the host shares with the image service. A host ignores URLs with unknown schemes.
    ``url``: URL of the control process that streams the data. ``ticket``: short-lived credential for that URL; ``repr``
    hides the ticket, because it grants access to its bearer.
    ``size_bytes``: 0 if unknown. ``hash_algo``, ``hash_value``: expected hash in lower-case hexadecimal, "" if the
    image service reports none. ``disk_format``: disk format of the image or of the upload; "" if the control process is
    of a release that does not send the format.
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
    """Result of fetching an image into the cache in advance.

    ``EXISTING``: the image was cached already. ``UNSUPPORTED``: the host has no image cache.
    """

    CACHED = "cached"
    EXISTING = "existing"
    UNSUPPORTED = "unsupported"
    ERROR = "error"
