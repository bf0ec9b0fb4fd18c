# SPDX-License-Identifier: Apache-2.0
"""Live migrations of simulated guests."""

from dataclasses import replace

from kilonova.compute.virt.abilities import CopyProgress, MigrationMonitor
from kilonova.compute.virt.fake.guests import Origin, SimulatedGuest
from kilonova.compute.virt.fake.hypervisor import AWAKE, SimulatedHypervisor
from kilonova.errors import DriverError, MigrationAborted
from kilonova.model.instance import GuestSpec, PowerState
from kilonova.records import dataclass

_REPORTED_EVERY_S = 1.0


@dataclass(frozen=True, slots=True, eq=False)
class LiveMigrations:
    """Copies a running guest to another host."""

    hypervisor: SimulatedHypervisor

    def prepare_live_migration(self, guest: GuestSpec, source: str) -> None:
        with self.hypervisor.lock:
            present = self.hypervisor.guests.guest(guest.uuid)
            if present is None:
                self.hypervisor.make(guest, PowerState.PAUSED, Origin.INCOMING, fails="move", to="move", source=source)
            elif present.origin is not Origin.INCOMING:
                raise DriverError(f"Guest {guest.uuid} already exists and is not being migrated here from {source}.")

    def live_migrate(self, uuid: str, destination: str, monitor: MigrationMonitor) -> PowerState:
        del destination
        with self.hypervisor.lock:
            if self.hypervisor.is_kept(uuid):
                return self.hypervisor.guests.places[uuid].state_when_kept
            guest = self.hypervisor.own(uuid)
            if guest.state not in AWAKE:
                raise DriverError(f"Guest {uuid} does not run.")
        self._copy(guest, monitor)
        with self.hypervisor.lock:
            if monitor.abort_requested:
                raise MigrationAborted
            if self.hypervisor.is_to_fail("live migration"):
                raise DriverError("Simulated failure to copy the guest.")
            guest = self.hypervisor.own(uuid)
            self.hypervisor.guests.put(uuid, guest=None, kept=guest)
            return guest.state

    def activate_migrated(self, uuid: str, *, paused: bool) -> None:
        with self.hypervisor.lock:
            guest = self.hypervisor.guests.guest(uuid)
            if guest is None:
                raise DriverError(f"Guest {uuid} does not exist.")
            if guest.origin is Origin.INCOMING:
                state = PowerState.PAUSED if paused else PowerState.RUNNING
                self.hypervisor.guests.put(uuid, guest=replace(guest, state=state, origin=Origin.MOVED))

    def _copy(self, guest: SimulatedGuest, monitor: MigrationMonitor) -> None:
        """Simulate the duration of copying, and report its progress."""
        duration, passed = self.hypervisor.host.live_migration_s, 0.0
        monitor.report(_progress(guest, 0.0))
        while passed < duration and not (monitor.abort_requested or monitor.completion_forced):
            pause = min(_REPORTED_EVERY_S, duration - passed)
            monitor.wait(pause)
            passed += pause
            monitor.report(_progress(guest, passed / duration))


def _progress(guest: SimulatedGuest, share: float) -> CopyProgress:
    memory, disk = guest.memory_mib << 20, guest.root_gib << 30
    copied, written = int(memory * share), int(disk * share)
    return CopyProgress(memory, copied, memory - copied, disk, written, disk - written)
