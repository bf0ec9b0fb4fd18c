# SPDX-License-Identifier: Apache-2.0
"""Capabilities of libvirt and QEMU on one host. ``capabilities_xml`` parses them."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

#: Architectures whose boards have no BIOS: their guests boot with UEFI.
EFI_ONLY = frozenset({"aarch64", "armv7l", "loongarch64", "riscv64"})


@dataclass(frozen=True, slots=True)
class MachineType:
    """A machine type. ``name``: the emulator's name, also if a guest asks for an alias such as q35.

    ``disk_buses``, ``video_models``, ``rng_models`` …: the supported devices.
    ``firmware``: bios, which stands for any built-in firmware, and efi.
    ``loaders``: paths of the UEFI firmware; ``secure_boot``: whether one of them supports Secure Boot.
    ``filesystems``: methods of sharing a host folder, such as virtiofs.
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
    """A CPU by its model name, with additional ``features``, and ``disabled`` ones."""

    name: str
    vendor: str = ""
    features: frozenset[str] = frozenset()
    disabled: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class HostCpu:
    """The CPUs of the host. ``cores``: for each die or socket; ``threads``: for each core.

    ``features``: in addition to those of the model. ``address_bits``: width of physical addresses, 0 if unknown.
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
    """A CPU of a NUMA cell. ``siblings``: the hyperthreads of its core, including itself."""

    id: int
    socket: int | None = None
    siblings: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class CellFacts:
    """A NUMA cell of the host. Units: KiB; ``pages``: page size in KiB → number of pages."""

    id: int
    memory_kib: int
    cpus: tuple[CellCpu, ...] = ()
    pages: Mapping[int, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class GuestKind:
    """An architecture that an emulator supports. ``domain_types``: how its guests can run, such as kvm and qemu."""

    architecture: str
    vm_mode: str
    emulator: str
    domain_types: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class HostCapabilities:
    """All capabilities of a host.

    ``virt_type``: kvm or qemu. ``emulator``: path of the program. Versions: in libvirt's form, major * 1,000,000 + …
    ``machines``: alias or name → machine type, of the host's own architecture.
    ``nic_models``: in terms of image properties, such as virtio or e1000e. ``cpu_models``: models that a guest may
    request.
    ``default_machine``: the emulator's default machine type.
    ``cpu_modes``: host-passthrough, host-model, maximum, custom. ``host_model``: the CPU that host-model stands for.
    ``guest_features``: features of a guest's CPU. ``device_types``: all devices of the emulator, by its own names.
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
        """The distinct machine types."""
        return iter({board.name: board for board in self.machines.values()}.values())
