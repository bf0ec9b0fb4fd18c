# SPDX-License-Identifier: Apache-2.0
"""``block_device_mapping_v2`` of POST /servers: the image's disk, and empty local disks (``blank`` to ``local``).

Everything else needs a volume service and is rejected.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Any, NoReturn

from msgspec import UNSET

from kilonova.api.compute.bodies.servers import BlockDevice, NewServer
from kilonova.api.http import Context
from kilonova.api.schemas.types import MAX_INTEGER
from kilonova.api.validation import invalid_field
from kilonova.model.flavor import Flavor
from kilonova.model.local_disk import DISK_BUSES, FILE_SYSTEMS, EphemeralDisk, LocalDisks, SwapDisk

_LIST = "block_device_mapping_v2"
_SWAP = "swap"
_NUMBER = re.compile(r"-?[0-9]{1,10}")


def read_local_disks(ctx: Context, asked: NewServer, flavor: Flavor) -> LocalDisks:
    """Return the requested local disks. Raises: InvalidRequest naming the field."""
    if asked.block_device_mapping:
        raise invalid_field("block_device_mapping", "No volume service is configured.")
    devices = asked.block_device_mapping_v2
    blank = []
    for index, device in enumerate(devices):
        if device.source_type == "blank" and device.destination_type == "local":
            blank.append((f"{_LIST}.{index}", device))
        elif not _is_image_boot(device, asked):
            raise invalid_field(
                f"{_LIST}.{index}",
                "No volume service is configured: only the local disk of the server's own image and blank local disks "
                "are supported.",
            )
    _require_boot_order(devices)
    _require_count(len(devices) + (len(devices) == len(blank)), ctx.backend.settings.compute.max_local_block_devices)
    swap = [_swap(field, device, flavor) for field, device in blank if device.guest_format == _SWAP]
    if len(swap) > 1:
        raise invalid_field(_LIST, "More than one swap drive requested.")
    ephemeral = tuple(_ephemeral(field, device, flavor) for field, device in blank if device.guest_format != _SWAP)
    disks = LocalDisks(ephemeral, swap[0] if swap else None)
    require_ephemeral_room(_LIST, disks, flavor)
    return disks


def require_ephemeral_room(field: str, disks: LocalDisks, flavor: Flavor) -> None:
    """Raise InvalidRequest naming ``field`` if requested ephemeral disks exceed those of a flavor."""
    if disks.ephemeral_gib > flavor.ephemeral_gib:
        raise invalid_field(
            field,
            f"Ephemeral disks requested are larger than the instance type allows: {disks.ephemeral_gib} of "
            f"{flavor.ephemeral_gib} GiB.",
        )


def _is_image_boot(device: BlockDevice, asked: NewServer) -> bool:
    return (
        device.source_type == "image"
        and device.destination_type == "local"
        and (device.boot_index is UNSET or str(device.boot_index) == "0")
        and device.uuid == asked.image_ref
    )


def _require_boot_order(devices: Sequence[BlockDevice]) -> None:
    """Raise InvalidRequest unless the boot indexes are 0, 1, 2, … with the image's disk as 0; -1 and null: no index."""
    of_images = [0 for device in devices if device.source_type == "image"] or [0]
    indexes = sorted([*of_images, *_boot_indexes(devices)])
    if indexes != list(range(len(indexes))):
        raise invalid_field(
            _LIST,
            "Boot sequence for the instance and image/block device mapping combination is not valid: boot_index of the "
            "image's disk is 0, and that of other disks -1, null, or the next number.",
        )


def _boot_indexes(devices: Sequence[BlockDevice]) -> Iterator[int]:
    """Yield the boot indexes of the blank disks that have one."""
    for number, device in enumerate(devices):
        if device.source_type == "blank" and device.boot_index not in {UNSET, None}:
            index = _number(f"{_LIST}.{number}.boot_index", device.boot_index)
            if index >= 0:
                yield index


def _require_count(count: int, maximum: int) -> None:
    """Raise InvalidRequest for too many local disks.

    ``count``: the number of disks with the root disk. ``maximum``: -1 for no limit.
    """
    if 0 <= maximum < count:
        raise invalid_field(
            _LIST,
            f"You specified more local devices than the limit allows: {count} with the root disk, of {maximum} "
            "([DEFAULT] max_local_block_devices).",
        )


def _swap(field: str, device: BlockDevice, flavor: Flavor) -> SwapDisk:
    bus = _checked_bus(field, device)
    mib = flavor.swap_mib if device.volume_size is None else _size(field, device)
    if mib > flavor.swap_mib:
        text = f"Swap drive requested is larger than instance type allows: {mib} of {flavor.swap_mib} MiB."
        raise invalid_field(f"{field}.volume_size", text)
    return SwapDisk(mib, flavor.swap_mib, bus)


def _ephemeral(field: str, device: BlockDevice, flavor: Flavor) -> EphemeralDisk:
    bus, file_system = _checked_bus(field, device), device.guest_format or None
    if file_system is not None and file_system not in FILE_SYSTEMS:
        _refuse_value(field, "guest_format", file_system, (*FILE_SYSTEMS, _SWAP))
    gib = flavor.ephemeral_gib if device.volume_size is None else _size(field, device)
    if not gib:
        raise invalid_field(f"{field}.volume_size", "The flavor has no ephemeral disk.")
    return EphemeralDisk(gib, file_system, bus)


def _checked_bus(field: str, device: BlockDevice) -> str | None:
    """Return the requested bus of a blank disk.

    Raises: InvalidRequest, also for fields that such a disk cannot have.
    """
    for name in ("uuid", "image_id", "snapshot_id", "volume_id", "volume_type", "no_device", "tag"):
        if getattr(device, name):
            raise invalid_field(f"{field}.{name}", "A blank local disk cannot have this field.")
    if device.device_type not in {None, "", "disk"}:
        _refuse_value(field, "device_type", str(device.device_type), ("disk",))
    if device.disk_bus and device.disk_bus not in DISK_BUSES:
        _refuse_value(field, "disk_bus", device.disk_bus, DISK_BUSES)
    return device.disk_bus or None


def _refuse_value(field: str, name: str, value: str, possible: Sequence[str]) -> NoReturn:
    raise invalid_field(f"{field}.{name}", f"Value: {value[:80]}. Possible values: {', '.join(possible)}.")


def _size(field: str, device: BlockDevice) -> int:
    size = _number(f"{field}.volume_size", device.volume_size)
    if not 1 <= size <= MAX_INTEGER:
        raise invalid_field(f"{field}.volume_size", f"Value: {size}. The value must be from 1 to {MAX_INTEGER}.")
    return size


def _number(field: str, value: Any) -> int:
    text = str(int(value)) if isinstance(value, int | float) else str(value)
    if not _NUMBER.fullmatch(text):
        raise invalid_field(field, "The value must be a whole number.")
    return int(text)
