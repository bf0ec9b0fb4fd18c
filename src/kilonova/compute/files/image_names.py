# SPDX-License-Identifier: Apache-2.0
"""Names of the cached image files of a host: ``IMAGE.HASH``, followed by the format if it is known."""

import re
from urllib.parse import quote, unquote

from kilonova.model.image_data import ImageData

#: Formats in which an image may be cached; the format is the suffix of the file name.
FORMATS = ("raw", "qcow2", "iso")
#: Prefix of the names of cached empty file systems, which are not images but backing files of ephemeral disks.
EPHEMERAL_PREFIX = "ephemeral_"
_HASH = re.compile(r"\.[0-9a-f]{32}$")


def name_of(image: ImageData) -> str:
    """Return the file name of an image. The name contains the hash of the data, so changed data gets a new name."""
    return ".".join(filter(None, (quote(image.image_id, safe=""), image.hash_value[:32])))


def without_format(name: str) -> str:
    """Return a file name without its suffix for the format."""
    stem, _, ending = name.rpartition(".")
    return stem if stem and ending in FORMATS else name


def format_of(name: str) -> str:
    """Return the format in a file name, or "" if there is none."""
    return name[len(without_format(name)) :].lstrip(".")


def image_id_of(name: str) -> str:
    """Return the image ID in a file name, or "" if the file is not an image."""
    name = without_format(name)
    return "" if name.startswith(EPHEMERAL_PREFIX) else unquote(_HASH.sub("", name))
