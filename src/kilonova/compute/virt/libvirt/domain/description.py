# SPDX-License-Identifier: Apache-2.0
"""Description of a guest: all properties of its domain, independent of their XML form.

The terms are those of libvirt's manual. Devices are in ``device_description``. A field that is None or empty leaves the
choice to libvirt.
"""

from collections.abc import Mapping
from dataclasses import field
from enum import StrEnum
from pathlib import Path

from kilonova.compute.virt.libvirt.domain.device_description import Devices
from kilonova.records import dataclass


class VirtType(StrEnum):
    """Kind of virtualization: KVM, or emulation by QEMU."""

    KVM = "kvm"
    QEMU = "qemu"


class DiskRole(StrEnum):
    """The purpose of a disk.

    A guest has at most one disk of each role except ``EPHEMERAL``; the two rescue roles exist only during a rescue.
    """

    ROOT = "root"
    EPHEMERAL = "ephemeral"
    SWAP = "swap"
    CONFIG = "config"
    RESCUE = "rescue"
    RESCUE_CONFIG = "rescue-config"


@dataclass(frozen=True, slots=True)
class DiskFile:
    """A disk file of a guest. ``format``: qcow2 or raw. QEMU is told the format, and never probes it.

    ``is_cdrom``: whether a root disk is an unmodified CD image (format iso) that is attached as a read-only CD-ROM.
    ``bus``: bus that the user requested for the disk; "" for the bus of the guest's disks.
    """

    role: DiskRole
    path: Path
    format: str
    is_cdrom: bool = False
    bus: str = ""


@dataclass(frozen=True, slots=True)
class NumaCell:
    """A NUMA cell of a guest. ``host_cell``: NUMA cell of the host that provides its memory.

    ``page_size_kib``: size of its memory pages.
    """

    id: int
    vcpus: frozenset[int]
    memory_mib: int
    host_cell: int | None = None
    page_size_kib: int | None = None


@dataclass(frozen=True, slots=True)
class Cpu:
    """The CPUs of a guest.

    ``mode``: host-model, host-passthrough, maximum, custom, or None for the emulator's default.
    ``features``: pairs of a feature's name and its policy, which is require or disable.
    ``address_mode``, ``address_bits``: mode and width of physical addresses.
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
    """CPU pinning and CPU limits of a guest. ``pins``: vCPU → host CPUs. ``floating``: host CPUs of unpinned vCPUs.

    ``realtime``: vCPUs with real-time scheduling, whose priority is ``realtime_priority``.
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
    """The firmware of a guest. ``efi``: True for UEFI, False for the board's BIOS.

    ``stateless``: whether the firmware has no variable store.
    ``loader``: path of the firmware image; None if libvirt chooses the image.
    """

    efi: bool = False
    loader: str | None = None
    secure_boot: bool = False
    stateless: bool = False
    boot_menu: bool = False


@dataclass(frozen=True, slots=True)
class Features:
    """Hypervisor features of a guest's board. ``tb_cache_mib``: size of the translation cache of emulated guests.

    ``hyperv``: whether the guest has the Hyper-V enlightenments, for Windows.
    ``hidden``: whether the hypervisor is hidden from the guest.
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
    """The clock of a guest. ``offset``: utc or localtime."""

    offset: str = "utc"
    timers: tuple[Timer, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Domain:
    """A guest. ``machine``: machine type. ``mark``: XML element with Kilonova's mark, for the metadata of the domain.

    ``system``: SMBIOS texts by libvirt's names, such as manufacturer and product.
    ``locked_memory``: whether the memory is never swapped out.
    ``merged_memory``: whether equal memory pages of guests may be merged (KSM).
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
