# SPDX-License-Identifier: Apache-2.0
"""What the files of images are called that a host keeps: ``IMAGE.HASH``, with the format behind where that is known."""

import re
from urllib.parse import quote, unquote

from kilonova.model.image_data import ImageData

#: An image may be kept in one of these, then with its name at the end of that of the file.
FORMATS = ("raw", "qcow2", "iso")
#: What is no image, but made for several guests: an empty file system.
EPHEMERAL_PREFIX = "ephemeral_"
_HASH = re.compile(r"\.[0-9a-f]{32}$")


def name_of(image: ImageData) -> str:
    """Return the name of the file of an image. Other data has another name."""
    return ".".join(filter(None, (quote(image.image_id, safe=""), image.hash_value[:32])))


def without_format(name: str) -> str:
    """Return the name of the file of an image, of that of the same one in a format."""
    stem, _, ending = name.rpartition(".")
    return stem if stem and ending in FORMATS else name


def format_of(name: str) -> str:
    """Return the format in the name of a file, "" where there is none."""
    return name[len(without_format(name)) :].lstrip(".")


def image_id_of(name: str) -> str:
    """Return the image that a file has, "" for what is no image."""
    name = without_format(name)
    return "" if name.startswith(EPHEMERAL_PREFIX) else unquote(_HASH.sub("", name))
