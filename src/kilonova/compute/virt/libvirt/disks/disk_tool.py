# SPDX-License-Identifier: Apache-2.0
"""Files with disks in them, made and changed by qemu-img. The format of a file is always said, never guessed."""

from collections.abc import Callable
from pathlib import Path

from kilonova.compute.virt.libvirt.disks.commands import LONG, SHORT, Limits, run

RAW, QCOW2 = "raw", "qcow2"
_QCOW2_SIZE = slice(24, 32)
#: A VHD has the size that it is made with only if one insists: others are made a little larger.
_OPTIONS = {"vpc": ("-o", "force_size=on")}
#: What is known of an image that may be hostile is little, and known soon.
_INSPECTION = Limits(wall_s=60.0, cpu_s=30, memory_bytes=1 << 30, output_bytes=1 << 20)


def describe(file: Path, format_: str) -> bytes:
    """Return what qemu-img knows of a file, as JSON; a guest may have it open. Raises: DriverError."""
    return run(["qemu-img", "info", "--force-share", "--output=json", "-f", format_, file], _INSPECTION)


def make_overlay(file: Path, base: Path, base_format: str, size_bytes: int) -> None:
    """Make a qcow2 file that has only what differs from ``base``. Raises: DriverError."""
    run(["qemu-img", "create", "-q", "-f", QCOW2, "-F", base_format, "-b", base, file, str(size_bytes)])


def make_empty(file: Path, format_: str, size_bytes: int) -> None:
    """Make an empty disk, which takes no room yet. Raises: DriverError."""
    run(["qemu-img", "create", "-q", "-f", format_, file, str(size_bytes)])


def grow(file: Path, format_: str, size_bytes: int) -> None:
    """Make a disk larger; qemu-img refuses to make it smaller. Raises: DriverError."""
    run(["qemu-img", "resize", "-q", "-f", format_, file, str(size_bytes)])


def convert(
    source: Path, source_format: str, target: Path, target_format: str, check: Callable[[], None] = lambda: None
) -> None:
    """Copy a disk, without its backing file. What ``check`` raises ends it. Raises: DriverError."""
    options = _OPTIONS.get(target_format, ())
    formats = ["-f", source_format, "-O", target_format]
    run(["qemu-img", "convert", "-q", *formats, *options, source, target], LONG, check)


def copy(source: Path, target: Path) -> None:
    """Copy a file as it is: holes stay holes, and data is shared where the file system can. Raises: DriverError."""
    run(["cp", "--reflink=auto", "--sparse=auto", "--", source, target], LONG)


def reserve(file: Path, size_bytes: int) -> None:
    """Have the file system set room aside for a file. Raises: DriverError."""
    run(["fallocate", "--keep-size", "--length", str(size_bytes), file], SHORT)


def virtual_bytes(file: Path, format_: str) -> int:
    """Return how large the disk in a raw or qcow2 file of ours is. Raises: OSError."""
    if format_ != QCOW2:
        return file.stat().st_size
    with file.open("rb") as data:
        return int.from_bytes(data.read(_QCOW2_SIZE.stop)[_QCOW2_SIZE], "big")
