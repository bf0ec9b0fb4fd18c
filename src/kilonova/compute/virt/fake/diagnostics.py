# SPDX-License-Identifier: Apache-2.0
"""Diagnostics of simulated guests: their uptime; all counters of load are 0."""

from datetime import UTC, datetime

from kilonova.compute.virt.fake.guests import SimulatedGuest
from kilonova.compute.virt.fake.hypervisor import SimulatedHypervisor
from kilonova.errors import GuestNotRunning
from kilonova.model.guest_diagnostics import CpuDiagnostics, DiskDiagnostics, GuestDiagnostics
from kilonova.model.instance import PowerState
from kilonova.records import dataclass

#: The API allows only certain names of drivers and hypervisors. As in Nova's fake driver, simulated guests report
#: libvirt and kvm.
_DRIVER, _HYPERVISOR = "libvirt", "kvm"


@dataclass(frozen=True, slots=True, eq=False)
class Diagnostics:
    """Returns the diagnostics of a guest."""

    hypervisor: SimulatedHypervisor

    def diagnostics(self, uuid: str) -> GuestDiagnostics:
        with self.hypervisor.lock:
            guest = self.hypervisor.present(uuid)
        if guest.state is not PowerState.RUNNING:
            raise GuestNotRunning(uuid)
        return GuestDiagnostics(
            driver=_DRIVER,
            hypervisor=_HYPERVISOR,
            uptime_s=_uptime_s(guest),
            memory_maximum_mib=guest.memory_mib,
            memory_used_mib=0,
            cpus=tuple(CpuDiagnostics(number, time_ns=0, utilisation=0) for number in range(guest.vcpus)),
            disks=tuple(DiskDiagnostics(name, 0, 0, 0, 0, 0) for name in guest.disks),
        )


def _uptime_s(guest: SimulatedGuest) -> int | None:
    """Return the uptime of a guest in seconds, or None if its start is no longer in the console log."""
    booted = next((entry.at for entry in reversed(guest.console) if entry.is_boot), None)
    return None if booted is None else max(0, int((datetime.now(UTC) - datetime.fromisoformat(booted)).total_seconds()))
