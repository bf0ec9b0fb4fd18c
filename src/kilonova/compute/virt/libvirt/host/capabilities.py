# SPDX-License-Identifier: Apache-2.0
"""Capabilities of libvirt and QEMU on one host. ``capabilities_xml`` reads them from libvirt's XML."""

from collections.abc import Iterator, Mapping
from dataclasses import field

from kilonova.records import dataclass

#: Architectures whose boards have no BIOS: their guests boot with UEFI.
EFI_ONLY = frozenset({"aarch64", "armv7l", "loongarch64", "riscv64"})


@dataclass(frozen=True, slots=True)
class MachineType:
    """A machine type. ``name``: its full name in QEMU, never an alias such as q35.

    ``disk_buses``, ``video_models``, ``rng_models`` …: the supported devices.
    ``firmware``: the supported firmware: efi, and bios, which stands for any built-in firmware.
    ``loaders``: paths of UEFI firmware files; ``secure_boot``: whether one of these files supports Secure Boot.
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
    """A CPU as a named model. ``features``: further CPU features. ``disabled``: features of the model that are off."""

    name: str
    vendor: str = ""
    features: frozenset[str] = frozenset()
    disabled: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class HostCpu:
    """The CPUs of the host. ``dies``: number per socket. ``cores``: number per die. ``threads``: number per core.

    ``features``: CPU features in addition to those of the model. ``address_bits``: width of physical addresses, 0 if
    unknown.
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
    """A CPU of a NUMA cell. ``siblings``: ids of all hyperthreads of its core, including this one."""

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
    """A guest architecture that an emulator supports. ``domain_types``: types of virtualization: kvm, qemu or both."""

    architecture: str
    vm_mode: str
    emulator: str
    domain_types: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class HostCapabilities:
    """All capabilities of a host.

    ``virt_type``: kvm or qemu. ``emulator``: path of the QEMU program.
    ``libvirt_version``, ``qemu_version``: major * 1,000,000 + minor * 1,000 + micro.
    ``machines``: name or alias → machine type, for guests of the host's own architecture.
    ``nic_models``: models of network cards, named as in image properties, such as virtio or e1000e.
    ``cpu_models``: CPU models that a guest may request. ``default_machine``: QEMU's default machine type.
    ``cpu_modes``: those of host-passthrough, host-model, maximum and custom that the host supports.
    ``host_model``: the CPU that a guest with host-model gets. ``guest_features``: CPU features of guests.
    ``device_types``: QEMU's names of all devices that it can emulate.
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
        """All machine types, each once, although ``machines`` also contains aliases."""
        return iter({board.name: board for board in self.machines.values()}.values())
