# SPDX-License-Identifier: Apache-2.0
"""The image ``tiny`` of a new cloud: a boot sector, or a small Linux with SSH if guests have networks.

``tools/network_guest.sh`` builds the Linux in ``.network-guest``, beside Kilonova's virtual environment.
"""

import sys
from pathlib import Path

from kilonova.cli.up import tiny_image
from kilonova.errors import ConfigurationError
from kilonova.records import dataclass

NAME = tiny_image.NAME
_LINUX = Path(".network-guest", "guest.qcow2")
_OF_LINUX = " of Linux"


@dataclass(frozen=True, slots=True)
class FirstImage:
    """``linux``: the file of the small Linux, or None for the boot sector."""

    linux: Path | None = None

    @property
    def disk_format(self) -> str:
        return tiny_image.DISK_FORMAT if self.linux is None else "qcow2"

    def content(self) -> bytes:
        return tiny_image.tiny_image() if self.linux is None else self.linux.read_bytes()

    @property
    def description(self) -> str:
        """What the file says that is written when a cloud has been filled."""
        return f"flavors and image{'' if self.linux is None else _OF_LINUX}\n"


def mark_of(folder: Path) -> Path:
    """Return the file with the description, which exists when the cloud of this data folder has been filled."""
    return folder / "seeded"


def has_linux(folder: Path) -> bool:
    """Return whether the cloud of this data folder was filled with the small Linux."""
    mark = mark_of(folder)
    return mark.exists() and mark.read_text(encoding="utf-8") == FirstImage(Path()).description


def linux_image(environment: Path | None = None) -> Path:
    """Return the file of the small Linux.

    ``environment``: Kilonova's environment; None: that of this process. Raises: ConfigurationError.
    """
    file = (environment or Path(sys.prefix)).parent / _LINUX
    if not file.exists():
        raise ConfigurationError(
            f"--networks with --hypervisor libvirt needs the image {_LINUX}, which does not exist; type: "
            "tools/network_guest.sh"
        )
    return file
