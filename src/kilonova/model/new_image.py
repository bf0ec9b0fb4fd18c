# SPDX-License-Identifier: Apache-2.0
"""Images to register with the image service before their data is uploaded."""

from collections.abc import Mapping
from dataclasses import field

from kilonova.records import dataclass


@dataclass(frozen=True, slots=True)
class NewImage:
    """Attributes of an image to register. ``id``: id under which the image is to be registered.

    Units: ``min_memory_mib`` MiB, ``min_disk_gib`` GiB.
    """

    id: str
    name: str
    disk_format: str = "raw"
    container_format: str = "bare"
    min_memory_mib: int = 0
    min_disk_gib: int = 0
    properties: Mapping[str, str] = field(default_factory=dict)
