# SPDX-License-Identifier: Apache-2.0
"""File systems of ephemeral disks, and swap space."""

from pathlib import Path

from kilonova.compute.virt.libvirt.disks.commands import CommandFailed, run
from kilonova.errors import DriverError

#: Default file system of ephemeral disks by the image's os_type. Source: Nova, default_ephemeral_format.
_BY_OS_TYPE = {"linux": "ext4", "windows": "ntfs"}
_OTHERWISE = "vfat"
#: File system → the command that makes it; the label and the file follow.
MAKERS = {
    "ext2": ("mkfs.ext2", "-q", "-F", "-L"),
    "ext3": ("mkfs.ext3", "-q", "-F", "-L"),
    "ext4": ("mkfs.ext4", "-q", "-F", "-L"),
    "xfs": ("mkfs.xfs", "-q", "-f", "-L"),
    "ntfs": ("mkfs.ntfs", "--quiet", "--force", "--fast", "--label"),
    "vfat": ("mkfs.vfat", "-n"),
}


def of_ephemeral_disks(os_type: str, default_format: str) -> str:
    """Return the file system for ephemeral disks. ``default_format``: the operator's setting, or "" if unset."""
    return default_format or _BY_OS_TYPE.get(os_type, _OTHERWISE)


def make_file_system(file: Path, kind: str, label: str) -> None:
    """Make a file system on a raw disk. Raises: DriverError."""
    try:
        run([*MAKERS[kind], label, file])
    except CommandFailed as error:
        raise DriverError(
            f"The ephemeral disk cannot be formatted as {kind} (set by the request, [DEFAULT] "
            f"default_ephemeral_format or the image's os_type): {error.message}"
        ) from error


def make_swap_space(file: Path) -> None:
    """Format a raw disk as swap space. Raises: DriverError."""
    run(["mkswap", file])
