# SPDX-License-Identifier: Apache-2.0
"""Checks that an image file has its declared format and no harmful features. Its author may be an attacker.

An image could refer to another file of the host as its backing file or data file, be larger than any disk, or be
mistaken for another format. Two tools inspect it without probing: oslo.utils reads the header in Python, and qemu-img
is told the format and runs with resource limits.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
from oslo_utils.imageutils import format_inspector

from kilonova.compute.virt.libvirt.disks import disk_tool
from kilonova.compute.virt.libvirt.disks.commands import CommandFailed
from kilonova.errors import ImageUnusable
from kilonova.model.image_data import ImageData

_PIECE = 1 << 16
#: disk_format of the image service → QEMU's name of the format.
QEMU_FORMATS: Mapping[str, str] = {
    "raw": "raw", "qcow2": "qcow2", "vmdk": "vmdk", "vdi": "vdi", "vhd": "vpc", "vhdx": "vhdx", "iso": "raw",
}  # fmt: skip
#: Format found in a file → declared formats that it satisfies. A format that is not listed satisfies only itself.
_ALSO = {"gpt": frozenset({"raw"}), "raw": frozenset({"raw"})}
#: Declared formats of images that the image service does not inspect.
_ANYTHING = frozenset({"", "ami"})
_VMDK = "vmdk"


@dataclass(frozen=True, slots=True)
class CheckedImage:
    """A checked image. ``disk_format``: in the image service's words. ``virtual_bytes``: virtual size of its disk."""

    disk_format: str
    virtual_bytes: int

    @property
    def qemu_format(self) -> str:
        return QEMU_FORMATS[self.disk_format]


def checked(file: Path, image: ImageData, vmdk_types: Collection[str]) -> CheckedImage:
    """Check an image file and return its format and size.

    ``vmdk_types``: the VMDK subformats that are allowed. Raises: ImageUnusable, OSError.
    """
    declared = image.disk_format
    if declared not in _ANYTHING and declared not in QEMU_FORMATS:
        raise _unusable(image, f"disks of the format {declared} are not supported")
    found = _found_in(file, image)
    if declared not in _ANYTHING and declared not in _ALSO.get(found, {found}):
        raise _unusable(image, f"the disk_format is {declared}, but the data is {found}")
    disk_format = "raw" if "raw" in _ALSO.get(found, ()) else found
    if disk_format not in QEMU_FORMATS:
        raise _unusable(image, f"disks of the format {disk_format} are not supported")
    return CheckedImage(disk_format, _described(file, image, disk_format, vmdk_types))


def _found_in(file: Path, image: ImageData) -> str:
    """Return the format of a file, in the image service's words. Raises: ImageUnusable."""
    try:
        with file.open("rb") as data:
            wrapper = format_inspector.InspectWrapper(data)
            while wrapper.formats is None and wrapper.read(_PIECE):
                pass
            wrapper.close()
            found = {str(each): each for each in wrapper.formats or ()}
            if found.keys() == {"iso", "gpt"}:  # a hybrid image, bootable from a CD and from a disk
                del found["gpt"]
            if len(found) != 1:
                raise _unusable(image, f"the data matches several formats: {', '.join(sorted(found))}")
            ((name, inspector),) = found.items()
            inspector.safety_check()
    except format_inspector.SafetyCheckFailed as error:
        what = "; ".join(str(why) for why in error.failures.values())
        raise _unusable(image, f"the data is not safe: {what}") from error
    except format_inspector.ImageFormatError as error:
        raise _unusable(image, f"the data cannot be read: {error}") from error
    return name


def _described(file: Path, image: ImageData, disk_format: str, vmdk_types: Collection[str]) -> int:
    """Return the virtual size of the disk in a file, after checking its features. Raises: ImageUnusable."""
    try:
        described: dict[str, Any] = orjson.loads(disk_tool.describe(file, QEMU_FORMATS[disk_format]))
    except (CommandFailed, orjson.JSONDecodeError) as error:
        raise _unusable(image, "qemu-img cannot read the data within its limits") from error
    data = described.get("format-specific", {}).get("data", {})
    wrong = [
        ("it has a backing file", "backing-filename" in described or "full-backing-filename" in described),
        ("it has a data file", "data-file" in data),
        ("it is encrypted", bool(described.get("encrypted")) or "encrypt" in data),
        ("it has internal snapshots", bool(described.get("snapshots"))),
        ("it is marked as corrupt", bool(data.get("corrupt"))),
    ]
    if disk_format == _VMDK:
        kind = data.get("create-type")
        others = {each.get("filename") for each in data.get("extents", ())} - {str(file)}
        wrong += [
            (f"VMDK of the type {kind} may not be used by [compute] vmdk_allowed_types", kind not in vmdk_types),
            ("it has extents in other files", bool(others)),
        ]
    for reason, is_so in wrong:
        if is_so:
            raise _unusable(image, reason)
    return int(described["virtual-size"])


def _unusable(image: ImageData, reason: str) -> ImageUnusable:
    return ImageUnusable(f"Image {image.image_id} cannot be used: {reason}.")
