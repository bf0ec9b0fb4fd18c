# SPDX-License-Identifier: Apache-2.0
"""An image that is to be registered with the image service, without data at first."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class NewImage:
    """What the image service is told of a new image. The image gets this ``id``.

    Units: ``min_memory_mib`` MiB, ``min_disk_gib`` GiB.
    """

    id: str
    name: str
    disk_format: str = "raw"
    container_format: str = "bare"
    min_memory_mib: int = 0
    min_disk_gib: int = 0
    properties: Mapping[str, str] = field(default_factory=dict)
