# SPDX-License-Identifier: Apache-2.0
"""Checks that an image file has its declared format and no harmful features. The author of an image may be an attacker.

A harmful image refers to another file of the host as its backing file or data file, is larger than any disk, or looks
like an image of another format. Two tools inspect each image: oslo.utils detects its format from the header, in Python;
then qemu-img reads the image, with this format as an argument and with resource limits.
"""

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import orjson
from oslo_utils.imageutils import format_inspector

from kilonova.compute.virt.libvirt.disks import disk_tool
from kilonova.compute.virt.libvirt.disks.commands import CommandFailed
from kilonova.errors import ImageUnusable
from kilonova.model.image_data import ImageData
from kilonova.records import dataclass

_PIECE = 1 << 16
#: disk_format of the image service → QEMU's name of the format.
QEMU_FORMATS: Mapping[str, str] = {
    "raw": "raw", "qcow2": "qcow2", "vmdk": "vmdk", "vdi": "vdi", "vhd": "vpc", "vhdx": "vhdx", "iso": "raw",
}  # fmt: skip
#: Format found in a file → values of disk_format that the image may declare. For a format that is not listed here, the
#: image must declare the same format.
_ALSO = {"gpt": frozenset({"raw"}), "raw": frozenset({"raw"})}
#: Values of disk_format with which an image may have any format: the image service does not check these images.
_ANYTHING = frozenset({"", "ami"})
_VMDK = "vmdk"


@dataclass(frozen=True, slots=True)
class CheckedImage:
    """A checked image. ``disk_format``: format as the image service names it. ``virtual_bytes``: virtual disk size."""

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
    """Return the format of a file, as the image service names it. Raises: ImageUnusable."""
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
        raise _unusable(image, "qemu-img cannot read the data within its resource limits") from error
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
            (f"[compute] vmdk_allowed_types does not allow VMDK images of the type {kind}", kind not in vmdk_types),
            ("it has extents in other files", bool(others)),
        ]
    for reason, is_so in wrong:
        if is_so:
            raise _unusable(image, reason)
    return int(described["virtual-size"])


def _unusable(image: ImageData, reason: str) -> ImageUnusable:
    return ImageUnusable(f"Image {image.image_id} cannot be used: {reason}.")
