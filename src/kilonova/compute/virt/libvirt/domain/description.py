# SPDX-License-Identifier: Apache-2.0
"""A guest as libvirt is told of it: everything that a domain has, and nothing of how that is written.

The words are libvirt's own, so that what libvirt's manual says of an attribute is true here. Its devices are in
``device_description``. None and empty fields stand for "libvirt decides".
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from kilonova.compute.virt.libvirt.domain.device_description import Devices


class VirtType(StrEnum):
    """How guests run: by KVM, or by an emulator."""

    KVM = "kvm"
    QEMU = "qemu"


class DiskRole(StrEnum):
    """What a disk is for. A guest has one of each at most, but for ``EPHEMERAL``; the last two only in a rescue."""

    ROOT = "root"
    EPHEMERAL = "ephemeral"
    SWAP = "swap"
    CONFIG = "config"
    RESCUE = "rescue"
    RESCUE_CONFIG = "rescue-config"


@dataclass(frozen=True, slots=True)
class DiskFile:
    """A file that a guest has as a disk. ``format``: qcow2 or raw, as it is and as QEMU is told, never guessed.

    ``is_cdrom``: of a root disk, that it is a CD-ROM as it came (an image in the format iso), and never written to.
    """

    role: DiskRole
    path: Path
    format: str
    is_cdrom: bool = False


@dataclass(frozen=True, slots=True)
class NumaCell:
    """One NUMA cell of a guest. ``host_cell``: where its memory is; ``page_size_kib``: of the pages it is made of."""

    id: int
    vcpus: frozenset[int]
    memory_mib: int
    host_cell: int | None = None
    page_size_kib: int | None = None


@dataclass(frozen=True, slots=True)
class Cpu:
    """The CPUs of a guest.

    ``mode``: host-model, host-passthrough, maximum, custom, or None for what the emulator takes.
    ``features``: name → require or disable. ``address_mode``, ``address_bits``: of physical addresses.
    """

    sockets: int
    cores: int = 1
    threads: int = 1
    mode: str | None = None
    model: str | None = None
    features: tuple[tuple[str, str], ...] = ()
    cells: tuple[NumaCell, ...] = ()
    address_mode: str | None = None
    address_bits: int | None = None


@dataclass(frozen=True, slots=True)
class CpuTuning:
    """Where CPUs run and how much they get. ``pins``: vCPU → host CPUs. ``floating``: host CPUs of all vCPUs.

    ``realtime``: vCPUs with a scheduler of real time, at ``realtime_priority``.
    """

    floating: frozenset[int] = frozenset()
    pins: tuple[tuple[int, frozenset[int]], ...] = ()
    emulator: frozenset[int] = frozenset()
    realtime: frozenset[int] = frozenset()
    realtime_priority: int = 1
    shares: int | None = None
    period: int | None = None
    quota: int | None = None


@dataclass(frozen=True, slots=True)
class Firmware:
    """What boots the guest. ``efi``: UEFI, else the BIOS of the board. ``stateless``: it keeps no variables.

    ``loader``: path of the program, None for one that libvirt chooses.
    """

    efi: bool = False
    loader: str | None = None
    secure_boot: bool = False
    stateless: bool = False
    boot_menu: bool = False


@dataclass(frozen=True, slots=True)
class Features:
    """What the board offers. ``tb_cache_mib``: memory in which the emulator keeps what it has translated.

    ``hyperv``: what Windows knows of hypervisors. ``hidden``: whether the guest is not to see that it is one.
    """

    apic: bool = True
    hyperv: bool = False
    hidden: bool = False
    pmu: bool | None = None
    vmcoreinfo: bool = True
    smm: bool = False
    ioapic_by_emulator: bool = False
    tb_cache_mib: int | None = None


@dataclass(frozen=True, slots=True)
class Timer:
    name: str
    tick_policy: str | None = None
    present: bool | None = None


@dataclass(frozen=True, slots=True)
class Clock:
    """``offset``: utc or localtime."""

    offset: str = "utc"
    timers: tuple[Timer, ...] = ()


@dataclass(frozen=True, slots=True)
class Domain:
    """A guest. ``machine``: kind of board. ``mark``: XML text of our own metadata, an element in a namespace.

    ``system``: what the firmware says of the machine (SMBIOS), by libvirt's names such as manufacturer and product.
    ``locked_memory``: its memory is never swapped out; ``merged_memory``: equal pages of guests may be merged.
    """

    uuid: str
    name: str
    virt_type: str
    emulator: str
    architecture: str
    machine: str
    memory_mib: int
    vcpus: int
    cpu: Cpu
    title: str = ""
    mark: str = ""
    tuning: CpuTuning = field(default_factory=CpuTuning)
    locked_memory: bool = False
    merged_memory: bool = True
    firmware: Firmware = field(default_factory=Firmware)
    features: Features = field(default_factory=Features)
    clock: Clock = field(default_factory=Clock)
    system: Mapping[str, str] = field(default_factory=dict)
    devices: Devices = field(default_factory=Devices)
