# SPDX-License-Identifier: Apache-2.0
"""The disks of a guest as devices: their buses, device names and boot order."""

from collections import Counter
from collections.abc import Mapping, Sequence
from string import ascii_lowercase

from kilonova.compute.virt.libvirt.domain.board import Board
from kilonova.compute.virt.libvirt.domain.description import DiskFile, DiskRole
from kilonova.compute.virt.libvirt.domain.device_description import Controller, Disk
from kilonova.compute.virt.libvirt.domain.guest_options import GuestOptions, number, one_of, shown
from kilonova.config.libvirt import LibvirtSettings
from kilonova.errors import UnsupportedGuest
from kilonova.model.image_properties import RESCUE_PROPERTIES, read_property

_BUSES = frozenset({"virtio", "scsi", "ide", "sata", "usb", "fdc"})
#: Device type → buses that support it. A CD-ROM needs removable media, which virtio does not support.
_BUSES_OF = {
    "disk": _BUSES - {"fdc"},
    "cdrom": frozenset({"scsi", "ide", "sata", "usb"}),
    "floppy": frozenset({"fdc"}),
}
_PREFIXES: Mapping[str, str] = {"virtio": "vd", "ide": "hd", "fdc": "fd"}
_MOST: Mapping[str, int] = {"ide": 4, "fdc": 2}
_DEFAULT_PREFIX = "sd"
_SCSI_MODELS = frozenset({"virtio-scsi", "lsilogic", "lsisas1068", "lsisas1078"})
_SCSI_SPELLINGS: Mapping[str, str] = {"lsilogicsas": "lsisas1068", "paravirtual": "vmpvscsi"}
_RESCUE_DEVICES = ("disk", "cdrom", "floppy")
_LIMITS = tuple(
    f"{what}_{unit}_sec" for unit in ("bytes", "iops") for what in ("total", "read", "write")
)  # names of I/O limits in libvirt and in extra specs


def describe_disks(
    disks: Sequence[DiskFile],
    options: GuestOptions,
    board: Board,
    settings: LibvirtSettings,
    rescue: Mapping[str, str] | None = None,
) -> tuple[Disk, ...]:
    """Return the disks, the root disk first. Raises: UnsupportedGuest naming the property.

    ``rescue``: properties of the rescue image. If they name a device or a bus for the rescue disk, the guest's disks
    keep their device names and the rescue disk is added last (stable device rescue). Otherwise the rescue disk comes
    first, the root disk second, and ephemeral disks and swap are omitted. In both cases the config drive of the rescue
    replaces the guest's own config drive.
    """
    files = {role: [disk for disk in disks if disk.role is role] for role in DiskRole}
    own = [*files[DiskRole.ROOT], *files[DiskRole.EPHEMERAL], *files[DiskRole.SWAP]]
    config, rescuing = files[DiskRole.RESCUE_CONFIG] or files[DiskRole.CONFIG], files[DiskRole.RESCUE]
    disk_kind = ("disk", disk_bus(options, board))
    cdrom_kind = ("cdrom", cdrom_bus(options, board))
    placed: list[tuple[DiskFile, tuple[str, str]]] = []
    if rescuing and not _is_stable(rescue or {}):
        own = [*rescuing, *files[DiskRole.ROOT]]
        rescuing = []
    for disk in [*own, *config]:
        is_cdrom = disk.is_cdrom or disk in config
        kind = ("disk", _supported("disk_bus", disk.bus, "disk", board)) if disk.bus else disk_kind
        placed.append((disk, cdrom_kind if is_cdrom else kind))
    placed += [(disk, _rescue_kind(rescue or {}, options, board)) for disk in rescuing]
    boots_from = DiskRole.RESCUE if files[DiskRole.RESCUE] else DiskRole.ROOT
    limits = _limits(options)
    found, used = [], Counter[str]()
    for disk, (device, bus) in placed:
        found.append(
            Disk(
                path=disk.path,
                format=disk.format,
                device="floppy" if bus == "fdc" else device,
                bus=bus,
                target=_target(bus, used),
                boot_order=1 if disk.role is boots_from else None,
                read_only=device == "cdrom",
                cache=_cache_mode(settings),
                discard=settings.hw_disk_discard or None,
                limits={} if device == "cdrom" else limits,
            )
        )
    return tuple(found)


def disk_bus(options: GuestOptions, board: Board) -> str:
    """Return the bus of a guest's disks. Raises: UnsupportedGuest naming the property."""
    adapter = options.property("vmware_adaptertype")
    bus = options.property("hw_disk_bus")
    if bus is None and adapter is not None:
        return _supported("vmware_adaptertype", "ide" if adapter == "ide" else "scsi", "disk", board, adapter)
    return _supported("hw_disk_bus", (bus or "virtio").lower(), "disk", board)


def cdrom_bus(options: GuestOptions, board: Board) -> str:
    """Return the bus of a guest's CD-ROMs, including config drives; by default, a bus that the board has.

    Raises: UnsupportedGuest naming the property.
    """
    bus = options.property("hw_cdrom_bus")
    return _supported("hw_cdrom_bus", bus.lower() if bus else _default_cdrom_bus(board), "cdrom", board)


def scsi_controllers(disks: Sequence[Disk], options: GuestOptions) -> tuple[Controller, ...]:
    """Return the SCSI controller that the image requests. If it requests none, libvirt adds its default controller."""
    name, model = "hw_scsi_model", options.property("hw_scsi_model")
    adapter = options.property("vmware_adaptertype")
    if model is None and adapter not in {None, "ide"}:
        name, model = "vmware_adaptertype", adapter
    if model is None or not any(disk.bus == "scsi" for disk in disks):
        return ()
    return (Controller("scsi", 0, one_of(name, canonical_scsi_model(model), _SCSI_MODELS)),)


def canonical_scsi_model(model: str) -> str:
    """Return the canonical spelling of a SCSI controller model; VMware images use other spellings."""
    return _SCSI_SPELLINGS.get(model.lower(), model.lower())


def _default_cdrom_bus(board: Board) -> str:
    if board.is_q35:
        return "sata"
    return "ide" if board.facts is None or "ide" in board.facts.disk_buses else "scsi"


def _supported(name: str, bus: str, device: str, board: Board, given: str | None = None) -> str:
    """Return ``bus`` if the board has this bus and the bus supports the device type ``device``.

    Raises: UnsupportedGuest naming the property.
    """
    buses = _BUSES if board.facts is None or not board.facts.disk_buses else board.facts.disk_buses
    allowed = buses & (_BUSES_OF[device] | ({"fdc"} if device == "disk" else set()))
    if bus not in allowed:
        raise UnsupportedGuest(
            f"{name}={shown(given or bus)} is not supported by this host on {board.name} machines "
            f"(supported: {', '.join(sorted(allowed))})."
        )
    return bus


def _is_stable(rescue: Mapping[str, str]) -> bool:
    return any(read_property(rescue, name) is not None for name in RESCUE_PROPERTIES)


def _rescue_kind(rescue: Mapping[str, str], options: GuestOptions, board: Board) -> tuple[str, str]:
    """Return device type and bus of a rescue disk that is added last."""
    device = one_of("hw_rescue_device", (read_property(rescue, "hw_rescue_device") or "disk").lower(), _RESCUE_DEVICES)
    assert device is not None
    bus = read_property(rescue, "hw_rescue_bus")
    if bus is not None:
        return device, _supported("hw_rescue_bus", bus.lower(), device, board)
    if device == "floppy":
        return device, _supported("hw_rescue_device", "fdc", device, board, device)
    return device, disk_bus(options, board) if device == "disk" else cdrom_bus(options, board)


def _target(bus: str, used: Counter[str]) -> str:
    prefix = _PREFIXES.get(bus, _DEFAULT_PREFIX)
    if used[prefix] >= _MOST.get(bus, len(ascii_lowercase)):
        raise UnsupportedGuest(f"The guest has more disks than the bus {bus} supports.")
    used[prefix] += 1
    return prefix + ascii_lowercase[used[prefix] - 1]


def _cache_mode(settings: LibvirtSettings) -> str | None:
    """Return the host's cache mode for disk files, or None if the operator sets none."""
    modes = dict(entry.split("=", 1) for entry in settings.disk_cachemodes if "=" in entry)
    return modes.get("file")


def _limits(options: GuestOptions) -> dict[str, int]:
    """Return the I/O limits of disks. Raises: UnsupportedGuest naming the extra spec."""
    limits = {}
    for name in _LIMITS:
        value = number(f"quota:disk_{name}", options.spec(f"quota:disk_{name}"))
        if value:  # 0 means unlimited
            limits[name] = value
    for unit in ("bytes", "iops"):
        parts = [part for part in ("read", "write") if limits.get(f"{part}_{unit}_sec")]
        if limits.get(f"total_{unit}_sec") and parts:
            raise UnsupportedGuest(f"quota:disk_total_{unit}_sec excludes quota:disk_{parts[0]}_{unit}_sec.")
    return limits
