# SPDX-License-Identifier: Apache-2.0
"""What a hypervisor knows of how a guest that runs is doing. None stands for what it does not know."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CpuDiagnostics:
    """One virtual CPU. ``time_ns``: for which it has run; ``utilisation``: percent."""

    id: int
    time_ns: int | None = None
    utilisation: int | None = None


@dataclass(frozen=True, slots=True)
class DiskDiagnostics:
    """One disk. ``device``: as the guest calls it."""

    device: str
    read_bytes: int | None = None
    read_requests: int | None = None
    write_bytes: int | None = None
    write_requests: int | None = None
    errors_count: int | None = None


@dataclass(frozen=True, slots=True)
class NicDiagnostics:
    """One network interface. ``device``: as the hypervisor calls it; rates in bytes a second."""

    device: str
    mac_address: str | None = None
    rx_octets: int | None = None
    rx_errors: int | None = None
    rx_drop: int | None = None
    rx_packets: int | None = None
    rx_rate: int | None = None
    tx_octets: int | None = None
    tx_errors: int | None = None
    tx_drop: int | None = None
    tx_packets: int | None = None
    tx_rate: int | None = None


@dataclass(frozen=True, slots=True)
class GuestDiagnostics:
    """One guest that runs. ``driver``, ``hypervisor``: in the words of the compute API, such as libvirt and kvm."""

    driver: str
    hypervisor: str | None = None
    hypervisor_os: str | None = None
    uptime_s: int | None = None
    memory_maximum_mib: int | None = None
    memory_used_mib: int | None = None
    cpus: tuple[CpuDiagnostics, ...] = ()
    disks: tuple[DiskDiagnostics, ...] = ()
    nics: tuple[NicDiagnostics, ...] = ()
