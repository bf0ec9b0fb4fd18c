# SPDX-License-Identifier: Apache-2.0
"""Diagnostics of a running guest. A field is None if the hypervisor does not report it."""

from kilonova.records import dataclass


@dataclass(frozen=True, slots=True)
class CpuDiagnostics:
    """One virtual CPU. ``time_ns``: CPU time used, in nanoseconds. ``utilisation``: in percent."""

    id: int
    time_ns: int | None = None
    utilisation: int | None = None


@dataclass(frozen=True, slots=True)
class DiskDiagnostics:
    """One disk. ``device``: name of the disk in the guest."""

    device: str
    read_bytes: int | None = None
    read_requests: int | None = None
    write_bytes: int | None = None
    write_requests: int | None = None
    errors_count: int | None = None


@dataclass(frozen=True, slots=True)
class NicDiagnostics:
    """One network interface. ``device``: name of the interface on the hypervisor. Units: rates in bytes per second."""

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
    """Diagnostics of one guest. ``driver``, ``hypervisor``: values of the compute API, such as libvirt and kvm."""

    driver: str
    hypervisor: str | None = None
    hypervisor_os: str | None = None
    uptime_s: int | None = None
    memory_maximum_mib: int | None = None
    memory_used_mib: int | None = None
    cpus: tuple[CpuDiagnostics, ...] = ()
    disks: tuple[DiskDiagnostics, ...] = ()
    nics: tuple[NicDiagnostics, ...] = ()
