# SPDX-License-Identifier: Apache-2.0
"""Images as the scheduler and the drivers use them."""

from collections.abc import Mapping
from dataclasses import field

from kilonova.records import dataclass


@dataclass(frozen=True, slots=True)
class Image:
    """An image with unparsed properties. Unknown properties are kept, so that scheduler rules can read all of them.

    Units: ``min_memory_mib`` MiB, ``min_disk_gib`` GiB, ``size_bytes`` bytes.
    ``hash_algo``, ``hash_value``: hash of the image data; "" if the image service reports none.
    """

    id: str
    name: str = ""
    status: str = "active"
    disk_format: str = "raw"
    container_format: str = "bare"
    min_memory_mib: int = 0
    min_disk_gib: int = 0
    size_bytes: int = 0
    properties: Mapping[str, str] = field(default_factory=dict)
    hash_algo: str = ""
    hash_value: str = ""
