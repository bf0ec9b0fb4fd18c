# SPDX-License-Identifier: Apache-2.0
"""The devices of a guest as libvirt is told of them. None stands for "libvirt decides"."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Disk:
    """A file that is a disk. ``device``: disk, cdrom or floppy. ``target``: vda, as libvirt calls it.

    ``boot_order``: from 1. ``limits``: libvirt's name of a limit, such as read_iops_sec → its value.
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
    """``type``: usb, scsi, pci. ``model``: none for "there is no such thing"."""

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
    """A serial port. ``log``: file that all output is added to. ``host``, ``port``: TCP address it listens at."""

    log: Path | None = None
    host: str | None = None
    port: int | None = None


@dataclass(frozen=True, slots=True)
class Channel:
    """A channel to a program inside the guest, by a socket that libvirt makes."""

    name: str


@dataclass(frozen=True, slots=True)
class Graphics:
    """A VNC server of the guest's screen, at a port that libvirt finds."""

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
    """A source of random numbers. ``rate_bytes`` in each ``rate_period`` milliseconds, when that is limited."""

    source: Path
    rate_bytes: int | None = None
    rate_period: int | None = None


@dataclass(frozen=True, slots=True)
class Watchdog:
    model: str
    action: str


@dataclass(frozen=True, slots=True)
class Tpm:
    """A TPM in software. ``version``: 1.2 or 2.0, ``model``: tpm-tis or tpm-crb."""

    version: str
    model: str


@dataclass(frozen=True, slots=True)
class Iommu:
    """An IOMMU for the guest itself. ``options``: libvirt's names of what its driver does → on, off or a number."""

    model: str
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class HostDevice:
    """A PCI device of the host, by its four numbers. ``managed``: libvirt takes it from the host and gives it back."""

    domain: int
    bus: int
    slot: int
    function: int
    managed: bool = True


@dataclass(frozen=True, slots=True)
class Balloon:
    """What gives memory back and counts what is used, every ``stats_period_s`` seconds. ``model``: virtio or none."""

    model: str = "virtio"
    stats_period_s: int | None = None


@dataclass(frozen=True, slots=True)
class Devices:
    """Every device of a guest, in the order in which they are told."""

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
