# SPDX-License-Identifier: Apache-2.0
"""What libvirt and QEMU of one host can do, as far as guests are made by it. ``capabilities_xml`` reads it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

#: Architectures whose boards have no firmware of their own: guests on them start by UEFI.
EFI_ONLY = frozenset({"aarch64", "armv7l", "loongarch64", "riscv64"})


@dataclass(frozen=True, slots=True)
class MachineType:
    """One kind of board. ``name``: as the emulator calls it, also where a guest asks for an alias such as q35.

    ``disk_buses``, ``video_models``, ``rng_models`` …: what guests on it may have. ``firmware``: bios, which stands for
    whatever the board has built in, and efi. ``loaders``: paths of the efi firmware; ``secure_boot``: whether one of
    them can insist on signed software. ``filesystems``: how a folder of the host is shared, such as virtiofs.
    """

    name: str
    disk_buses: frozenset[str] = frozenset()
    video_models: frozenset[str] = frozenset()
    firmware: frozenset[str] = frozenset()
    max_vcpus: int = 0
    loaders: tuple[str, ...] = ()
    secure_boot: bool = False
    rng_models: frozenset[str] = frozenset()
    tpm_models: frozenset[str] = frozenset()
    tpm_backends: frozenset[str] = frozenset()
    tpm_versions: frozenset[str] = frozenset()
    filesystems: frozenset[str] = frozenset()
    graphics: frozenset[str] = frozenset()
    memory_sources: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class CpuModel:
    """A CPU by the name of a model, ``features`` that it has beside those of the model, and ``disabled`` ones."""

    name: str
    vendor: str = ""
    features: frozenset[str] = frozenset()
    disabled: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class HostCpu:
    """The CPUs of the host. ``cores``: of each die or socket; ``threads``: of each core.

    ``features``: beside those of the model. ``address_bits``: how wide its physical addresses are, 0 when unknown.
    """

    model: str = ""
    vendor: str = ""
    features: frozenset[str] = frozenset()
    sockets: int = 1
    dies: int = 1
    cores: int = 1
    threads: int = 1
    address_bits: int = 0


@dataclass(frozen=True, slots=True)
class CellCpu:
    """One CPU of a NUMA cell. ``siblings``: the hyperthreads of its core, itself included."""

    id: int
    socket: int | None = None
    siblings: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class CellFacts:
    """One NUMA cell. Units: KiB; ``pages``: size in KiB → how many there are."""

    id: int
    memory_kib: int
    cpus: tuple[CellCpu, ...] = ()
    pages: Mapping[int, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class GuestKind:
    """One architecture for which there is an emulator. ``domain_types``: how it runs, such as kvm and qemu."""

    architecture: str
    vm_mode: str
    emulator: str
    domain_types: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class HostCapabilities:
    """``virt_type``: kvm or qemu. ``emulator``: path of the program. Versions: as libvirt counts, major * 1,000,000 + …

    ``machines``: alias or name → board, of the host's own architecture. ``nic_models``: in the words of image
    properties, such as virtio or e1000e. ``cpu_models``: names that a guest may ask for.
    ``default_machine``: the board that the emulator takes when a guest names none.
    ``cpu_modes``: host-passthrough, host-model, maximum, custom. ``host_model``: what host-model stands for here.
    ``guest_features``: the features of a guest's CPU. ``device_types``: every device of the emulator, in its own words.
    """

    architecture: str
    virt_type: str
    emulator: str
    libvirt_version: int = 0
    qemu_version: int = 0
    machines: Mapping[str, MachineType] = field(default_factory=dict)
    nic_models: frozenset[str] = frozenset()
    cpu_models: frozenset[str] = frozenset()
    default_machine: str = ""
    cpu_modes: frozenset[str] = frozenset()
    host_model: CpuModel | None = None
    guest_features: frozenset[str] = frozenset()
    device_types: frozenset[str] = frozenset()
    cpu: HostCpu = field(default_factory=HostCpu)
    cells: tuple[CellFacts, ...] = ()
    kinds: tuple[GuestKind, ...] = ()

    @property
    def boards(self) -> Iterator[MachineType]:
        """Every board once."""
        return iter({board.name: board for board in self.machines.values()}.values())
