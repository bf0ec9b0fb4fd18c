# SPDX-License-Identifier: Apache-2.0
"""What libvirt and QEMU of one host can do, as far as guests are made by it."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class MachineType:
    """One kind of board. ``name``: as the emulator calls it, also where a guest asks for an alias such as q35.

    ``disk_buses``, ``video_models``: what guests on it may have. ``firmware``: bios, efi.
    """

    name: str
    disk_buses: frozenset[str] = frozenset()
    video_models: frozenset[str] = frozenset()
    firmware: frozenset[str] = frozenset()
    max_vcpus: int = 0


@dataclass(frozen=True, slots=True)
class HostCapabilities:
    """``virt_type``: kvm or qemu. ``emulator``: path of the program. Versions: as libvirt counts, major * 1,000,000 + …

    ``machines``: alias or name → board, of the host's own architecture. ``nic_models``: in the words of image
    properties, such as virtio or e1000e. ``cpu_models``: names that a guest may ask for.
    """

    architecture: str
    virt_type: str
    emulator: str
    libvirt_version: int = 0
    qemu_version: int = 0
    machines: Mapping[str, MachineType] = field(default_factory=dict)
    nic_models: frozenset[str] = frozenset()
    cpu_models: frozenset[str] = frozenset()
