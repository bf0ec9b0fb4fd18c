# SPDX-License-Identifier: Apache-2.0
"""A guest as libvirt is told of it: everything that a domain has, and nothing of how that is written."""

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path


class DiskRole(StrEnum):
    """What a disk is for. A guest has one of each at most, but for ``EPHEMERAL``."""

    ROOT = "root"
    EPHEMERAL = "ephemeral"
    SWAP = "swap"
    CONFIG = "config"
    RESCUE = "rescue"


@dataclass(frozen=True, slots=True)
class DiskFile:
    """A file that a guest has as a disk. ``format``: qcow2 or raw, as it is and as QEMU is told, never guessed.

    ``is_cdrom``: of a root disk, that it is a CD-ROM as it came (an image in the format iso), and never written to.
    """

    role: DiskRole
    path: Path
    format: str
    is_cdrom: bool = False
