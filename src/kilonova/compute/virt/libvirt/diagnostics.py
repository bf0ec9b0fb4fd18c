# SPDX-License-Identifier: Apache-2.0
"""Diagnostics of libvirt guests: statistics of their CPUs, memory, disks and network interfaces."""

from collections.abc import Mapping
from typing import Any

import libvirt

from kilonova.compute.virt.libvirt.connection import explained
from kilonova.compute.virt.libvirt.hypervisor import LibvirtHost
from kilonova.errors import GuestNotRunning
from kilonova.model.guest_diagnostics import CpuDiagnostics, DiskDiagnostics, GuestDiagnostics, NicDiagnostics
from kilonova.model.instance import PowerState
from kilonova.records import dataclass

_WANTED = (
    libvirt.VIR_DOMAIN_STATS_VCPU
    | libvirt.VIR_DOMAIN_STATS_BALLOON
    | libvirt.VIR_DOMAIN_STATS_BLOCK
    | libvirt.VIR_DOMAIN_STATS_INTERFACE
)


@dataclass(frozen=True, slots=True, eq=False)
class Diagnostics:
    """Returns the diagnostics of a guest."""

    host: LibvirtHost

    def diagnostics(self, uuid: str) -> GuestDiagnostics:
        domain = self.host.domains.get(uuid)
        if domain.power_state() not in {PowerState.RUNNING, PowerState.PAUSED}:
            raise GuestNotRunning(uuid)
        connection = self.host.connection.use()
        with explained(f"return the diagnostics of guest {uuid}"):
            ((_, stats),) = connection.domainListGetStats([domain.handle], _WANTED, 0)
        return GuestDiagnostics(
            driver="libvirt",
            hypervisor=self.host.report.capabilities(connection).virt_type,
            hypervisor_os="linux",
            memory_maximum_mib=_mib(stats.get("balloon.maximum")),
            memory_used_mib=_mib(stats.get("balloon.rss")),
            cpus=tuple(
                CpuDiagnostics(number, stats.get(f"vcpu.{number}.time"))
                for number in range(stats.get("vcpu.current", 0))
            ),
            disks=tuple(_disk(stats, f"block.{number}.") for number in range(stats.get("block.count", 0))),
            nics=tuple(_nic(stats, f"net.{number}.") for number in range(stats.get("net.count", 0))),
        )


def _mib(kib: int | None) -> int | None:
    return None if kib is None else kib >> 10


def _disk(stats: Mapping[str, Any], at: str) -> DiskDiagnostics:
    return DiskDiagnostics(
        stats[f"{at}name"],
        read_bytes=stats.get(f"{at}rd.bytes"),
        read_requests=stats.get(f"{at}rd.reqs"),
        write_bytes=stats.get(f"{at}wr.bytes"),
        write_requests=stats.get(f"{at}wr.reqs"),
        errors_count=stats.get(f"{at}errors"),
    )


def _nic(stats: Mapping[str, Any], at: str) -> NicDiagnostics:
    return NicDiagnostics(
        stats[f"{at}name"],
        rx_octets=stats.get(f"{at}rx.bytes"),
        rx_packets=stats.get(f"{at}rx.pkts"),
        rx_errors=stats.get(f"{at}rx.errs"),
        rx_drop=stats.get(f"{at}rx.drop"),
        tx_octets=stats.get(f"{at}tx.bytes"),
        tx_packets=stats.get(f"{at}tx.pkts"),
        tx_errors=stats.get(f"{at}tx.errs"),
        tx_drop=stats.get(f"{at}tx.drop"),
    )
