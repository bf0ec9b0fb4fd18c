# SPDX-License-Identifier: Apache-2.0
"""Description of the devices of a guest. A field that is None leaves the choice to libvirt."""

import re
from collections.abc import Mapping
from dataclasses import field
from pathlib import Path

from kilonova.records import dataclass

_PCI_ADDRESS = re.compile(r"([0-9a-f]{4,8}):([0-9a-f]{2}):([01][0-9a-f])\.([0-7])", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Disk:
    """A disk file as a device. ``device``: disk, cdrom or floppy. ``target``: libvirt's device name, such as vda.

    ``boot_order``: position in the boot order, from 1; None if the guest does not boot from the disk.
    ``limits``: libvirt's name of a limit, such as read_iops_sec → value of the limit.
    """

    path: Path
    format: str
    device: str
    bus: str
    target: str
    boot_order: int | None = None
    read_only: bool = False
    cache: str | None = None
    discard: str | None = None
    limits: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Controller:
    """A controller. ``type``: usb, scsi or pci. ``model``: "none" for an explicitly absent controller."""

    type: str
    index: int | None = None
    model: str | None = None


@dataclass(frozen=True, slots=True)
class HostDevice:
    """A PCI device of the host, given by the four numbers of its address.

    ``managed``: whether libvirt detaches the device from the host when the guest starts, and reattaches it when the
    guest stops. ``alias``: name by which the driver finds the device again; None for a device that stays attached.
    """

    domain: int
    bus: int
    slot: int
    function: int
    managed: bool = True
    alias: str | None = None

    @classmethod
    def at(cls, address: str) -> "HostDevice | None":
        """Return the device with a PCI address such as 0000:0a:00.1, or None if the text is not a PCI address."""
        found = _PCI_ADDRESS.fullmatch(address)
        if found is None:
            return None
        domain, bus, slot, function = (int(part, 16) for part in found.groups())
        return cls(domain, bus, slot, function)

    def is_same_as(self, other: "HostDevice") -> bool:
        return all(getattr(self, name) == getattr(other, name) for name in ("domain", "bus", "slot", "function"))


@dataclass(frozen=True, slots=True)
class BridgeSource:
    """A bridge of the host, to which a tap device is added. ``bridge``: name of the bridge.

    ``interface_id``: id of the port, which Open vSwitch stores with the tap device; None for a bridge of the kernel.
    """

    bridge: str
    interface_id: str | None = None


@dataclass(frozen=True, slots=True)
class MacvtapSource:
    """A macvtap device on top of a network device of the host. ``mode``: libvirt's name of the macvtap mode."""

    device: str
    mode: str


@dataclass(frozen=True, slots=True)
class PciSource:
    """A virtual function of an SR-IOV card, which the guest uses directly. ``vlan``: VLAN id that the card adds."""

    device: HostDevice
    vlan: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Nic:
    """A network card of the guest. ``alias``: name by which the driver finds the card again.

    ``model``: emulated model; None for a PCI device of the host. ``target``: name of the tap device.
    ``packed``: whether its queues are packed virtqueues. ``offloads``: whether a virtio card may leave checksums and
    segmentation to the host.
    """

    mac: str
    source: BridgeSource | MacvtapSource | PciSource
    model: str | None = "virtio"
    alias: str | None = None
    target: str | None = None
    mtu: int | None = None
    queues: int | None = None
    packed: bool = False
    offloads: bool = True


@dataclass(frozen=True, slots=True)
class Serial:
    """A serial port.

    ``log``: file to which the output of the port is appended. ``host``, ``port``: TCP address at which QEMU accepts
    connections to the port.
    """

    log: Path | None = None
    host: str | None = None
    port: int | None = None


@dataclass(frozen=True, slots=True)
class Channel:
    """A virtio channel to a program inside the guest, connected to a socket that libvirt creates."""

    name: str


@dataclass(frozen=True, slots=True)
class Graphics:
    """The VNC server of the guest's screen, on a port that libvirt chooses."""

    listen: str


@dataclass(frozen=True, slots=True)
class Video:
    model: str
    vram_kib: int | None = None


@dataclass(frozen=True, slots=True)
class Input:
    type: str
    bus: str


@dataclass(frozen=True, slots=True)
class Rng:
    """A random number generator. ``rate_bytes``: maximum number of bytes in each period; None for no limit.

    ``rate_period``: length of a period in milliseconds.
    """

    source: Path
    rate_bytes: int | None = None
    rate_period: int | None = None


@dataclass(frozen=True, slots=True)
class Watchdog:
    model: str
    action: str


@dataclass(frozen=True, slots=True)
class Tpm:
    """An emulated TPM. ``version``: 1.2 or 2.0, ``model``: tpm-tis or tpm-crb."""

    version: str
    model: str


@dataclass(frozen=True, slots=True)
class Iommu:
    """A virtual IOMMU. ``options``: libvirt's name of a driver option → on, off or a number."""

    model: str
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Balloon:
    """The memory balloon. ``model``: virtio or none. ``stats_period_s``: seconds between updates of its statistics."""

    model: str = "virtio"
    stats_period_s: int | None = None


@dataclass(frozen=True, slots=True)
class Devices:
    """All devices of a guest, in the order of their XML elements."""

    disks: tuple[Disk, ...] = ()
    controllers: tuple[Controller, ...] = ()
    nics: tuple[Nic, ...] = ()
    serials: tuple[Serial, ...] = ()
    channels: tuple[Channel, ...] = ()
    inputs: tuple[Input, ...] = ()
    graphics: Graphics | None = None
    video: Video | None = None
    sound: str | None = None
    rng: Rng | None = None
    watchdog: Watchdog | None = None
    tpm: Tpm | None = None
    iommu: Iommu | None = None
    host_devices: tuple[HostDevice, ...] = ()
    balloon: Balloon = field(default_factory=Balloon)
