# SPDX-License-Identifier: Apache-2.0
"""Operations on disk files, mostly with qemu-img. The format of a file is always given, never probed."""

from collections.abc import Callable
from pathlib import Path

from kilonova.compute.virt.libvirt.disks.commands import LONG, SHORT, Limits, run

RAW, QCOW2 = "raw", "qcow2"
_QCOW2_SIZE = slice(24, 32)
#: qemu-img rounds the size of a VHD up unless force_size is set.
_OPTIONS = {"vpc": ("-o", "force_size=on")}
#: Limits for inspecting an image that an attacker may have made. A normal image needs much less time and output.
_INSPECTION = Limits(wall_s=60.0, cpu_s=30, memory_bytes=1 << 30, output_bytes=1 << 20)


def describe(file: Path, format_: str) -> bytes:
    """Return qemu-img's description of a file as JSON. A running guest may have the file open. Raises: DriverError."""
    return run(["qemu-img", "info", "--force-share", "--output=json", "-f", format_, file], _INSPECTION)


def make_overlay(file: Path, base: Path, base_format: str, size_bytes: int) -> None:
    """Make a qcow2 file with ``base`` as its backing file. Raises: DriverError."""
    run(["qemu-img", "create", "-q", "-f", QCOW2, "-F", base_format, "-b", base, file, str(size_bytes)])


def make_empty(file: Path, format_: str, size_bytes: int) -> None:
    """Make an empty sparse disk. Raises: DriverError."""
    run(["qemu-img", "create", "-q", "-f", format_, file, str(size_bytes)])


def grow(file: Path, format_: str, size_bytes: int) -> None:
    """Enlarge a disk; qemu-img refuses to shrink it. Raises: DriverError."""
    run(["qemu-img", "resize", "-q", "-f", format_, file, str(size_bytes)])


def convert(
    source: Path, source_format: str, target: Path, target_format: str, check: Callable[[], None] = lambda: None
) -> None:
    """Copy a disk including the data of its backing file.

    If ``check`` raises, the copy is aborted. Raises: DriverError.
    """
    options = _OPTIONS.get(target_format, ())
    formats = ["-f", source_format, "-O", target_format]
    run(["qemu-img", "convert", "-q", *formats, *options, source, target], LONG, check)


def copy(source: Path, target: Path) -> None:
    """Copy a file; holes are kept, and data is shared if the file system supports reflinks. Raises: DriverError."""
    run(["cp", "--reflink=auto", "--sparse=auto", "--", source, target], LONG)


def reserve(file: Path, size_bytes: int) -> None:
    """Preallocate the disk space of a file. Raises: DriverError."""
    run(["fallocate", "--keep-size", "--length", str(size_bytes), file], SHORT)


def virtual_bytes(file: Path, format_: str) -> int:
    """Return the virtual size in bytes of a trusted raw or qcow2 file. Raises: OSError."""
    if format_ != QCOW2:
        return file.stat().st_size
    with file.open("rb") as data:
        return int.from_bytes(data.read(_QCOW2_SIZE.stop)[_QCOW2_SIZE], "big")
