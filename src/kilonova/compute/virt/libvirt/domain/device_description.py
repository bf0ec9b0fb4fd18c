# SPDX-License-Identifier: Apache-2.0
"""Description of the devices of a guest. A field that is None leaves the choice to libvirt."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path


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
class Nic:
    """A network card on a bridge of the host. ``packed``: whether its queues are packed virtqueues."""

    mac: str
    bridge: str
    model: str = "virtio"
    target: str | None = None
    mtu: int | None = None
    queues: int | None = None
    packed: bool = False


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
class HostDevice:
    """A PCI device of the host, given by the four numbers of its address.

    ``managed``: whether libvirt detaches the device from the host when the guest starts, and reattaches it when the
    guest stops.
    """

    domain: int
    bus: int
    slot: int
    function: int
    managed: bool = True


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
