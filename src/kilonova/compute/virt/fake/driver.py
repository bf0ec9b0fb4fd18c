# SPDX-License-Identifier: Apache-2.0
"""A simulated hypervisor. Its guests live in a file of its own, so it outlives its agent as a real one would."""

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from kilonova.compute.images import HostImages
from kilonova.compute.virt.base import CopyProgress, MigrationMonitor
from kilonova.compute.virt.fake.guests import GuestFile, Origin, SimulatedGuest
from kilonova.errors import DriverError, MigrationAborted, UnsupportedGuest
from kilonova.model.host import NodeReport
from kilonova.model.instance import GuestSpec, PowerState
from kilonova.scenario.model import AllocationRatios, SimulatedHost

_REPORTED_EVERY_S = 1.0
_AWAKE = (PowerState.RUNNING, PowerState.PAUSED)


class FakeDriver:
    """Simulates one host of a scenario. ``sleep`` stands for the time that a real hypervisor would take.

    ``images``: of the host, which are fetched for guests that are new; None for a host that reads none.
    """

    def __init__(
        self,
        host: SimulatedHost,
        state_file: Path,
        ratios: AllocationRatios,
        *,
        images: HostImages | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._host = host
        self._ratios = ratios
        self._sleep = sleep
        self._images = images
        self._lock = threading.Lock()
        self._failures_left = {
            "spawn": host.failing_spawns,
            "move": host.failing_moves,
            "live migration": host.failing_live_migrations,
        }
        self._guests = GuestFile(host.name, state_file)

    def report(self) -> NodeReport:
        host = self._host
        return NodeReport(
            host=host.name,
            hypervisor_hostname=host.hypervisor_hostname,
            capabilities=host.capabilities,
            inventories=host.reported_inventories(self._ratios),
            traits=host.reported_traits,
            metrics=host.metrics,
            devices=host.devices,
        )

    def list_guests(self) -> Mapping[str, PowerState]:
        with self._lock:
            return {uuid: place.power_state for uuid, place in self._guests.places.items()}

    def marked_guests(self) -> Mapping[str, datetime]:
        with self._lock:
            places = self._guests.places.items()
            return {uuid: place.ordered_at for uuid, place in places if place.ordered_at is not None}

    def spawn(self, guest: GuestSpec) -> None:
        self._take(self._host.spawn_delay_s)
        if self._images is not None and guest.image is not None and guest.uuid not in self._guests.places:
            self._images.fetch(guest.image)
        with self._lock:
            if self._guests.guest(guest.uuid) is not None:
                return
            self._make(guest, PowerState.RUNNING, Origin.SPAWNED, fails="spawn", to="start")

    def destroy(self, uuid: str) -> None:
        self._take(self._host.destroy_delay_s)
        with self._lock:
            self._guests.put(uuid, guest=None, kept=None)

    def start(self, uuid: str) -> None:
        self._set_state(uuid, PowerState.RUNNING)

    def stop(self, uuid: str) -> None:
        self._set_state(uuid, PowerState.SHUTDOWN)

    def reboot(self, uuid: str, *, hard: bool) -> None:
        del hard
        self._set_state(uuid, PowerState.RUNNING)

    # --- cold moves ---------------------------------------------------------------------------------------------------

    def move_away(self, uuid: str, destination: str) -> None:
        self._take(self._host.move_delay_s)
        with self._lock:
            guest = self._guests.guest(uuid)
            is_made_here = destination == self._host.name and guest is not None and guest.origin is Origin.MOVED
            if not self._is_kept(uuid, beside_guest=is_made_here):
                self._guests.put(uuid, guest=None, kept=self._own(uuid))

    def finish_move(self, guest: GuestSpec, source: str, *, power_on: bool) -> None:
        self._take(self._host.move_delay_s)
        state = PowerState.RUNNING if power_on else PowerState.SHUTDOWN
        with self._lock:
            present = self._guests.guest(guest.uuid)
            if present is not None:
                if present.origin is not Origin.MOVED:
                    raise DriverError(f"Guest {guest.uuid} is there already, and no move brought it.")
                self._guests.put(guest.uuid, guest=replace(present, state=state))
            elif source == self._host.name and self._guests.kept(guest.uuid) is None:
                raise DriverError(f"Guest {guest.uuid} does not exist.")
            else:
                self._make(guest, state, Origin.MOVED, fails="move", to="move")

    def return_home(self, guest: GuestSpec, *, power_on: bool) -> PowerState:
        self._take(self._host.move_delay_s)
        with self._lock:
            present, kept = self._guests.guest(guest.uuid), self._guests.kept(guest.uuid)
            if present is not None and kept is not None:
                raise DriverError(f"Guest {guest.uuid} is kept, and the one that a move made is still there.")
            back = self._own(guest.uuid) if kept is None else kept
            if not power_on and kept is not None:
                back = replace(back, state=PowerState.SHUTDOWN)
            elif power_on and back.state not in _AWAKE:
                back = replace(back, state=PowerState.RUNNING)
            self._guests.put(guest.uuid, guest=back, kept=None)
            return back.state

    def confirm_move(self, uuid: str) -> None:
        with self._lock:
            self._guests.put(uuid, kept=None)

    def abandon_move(self, uuid: str) -> None:
        with self._lock:
            guest = self._guests.guest(uuid)
            if guest is not None and guest.origin is not Origin.SPAWNED:
                self._guests.put(uuid, guest=None)

    # --- live migration -----------------------------------------------------------------------------------------------

    def prepare_live_migration(self, guest: GuestSpec, source: str) -> None:
        with self._lock:
            present = self._guests.guest(guest.uuid)
            if present is None:
                self._make(guest, PowerState.PAUSED, Origin.INCOMING, fails="move", to="move")
            elif present.origin is not Origin.INCOMING:
                raise DriverError(f"Guest {guest.uuid} is there already, and does not come from {source}.")

    def live_migrate(self, uuid: str, destination: str, monitor: MigrationMonitor) -> PowerState:
        del destination
        with self._lock:
            if self._is_kept(uuid):
                return self._guests.places[uuid].state_when_kept
            guest = self._own(uuid)
            if guest.state not in _AWAKE:
                raise DriverError(f"Guest {uuid} does not run.")
        self._copy(guest, monitor)
        with self._lock:
            if monitor.abort_requested:
                raise MigrationAborted
            if self._is_to_fail("live migration"):
                raise DriverError("Simulated failure to copy the guest.")
            guest = self._own(uuid)
            self._guests.put(uuid, guest=None, kept=guest)
            return guest.state

    def activate_migrated(self, uuid: str, *, paused: bool) -> None:
        with self._lock:
            guest = self._guests.guest(uuid)
            if guest is None:
                raise DriverError(f"Guest {uuid} does not exist.")
            if guest.origin is Origin.INCOMING:
                state = PowerState.PAUSED if paused else PowerState.RUNNING
                self._guests.put(uuid, guest=replace(guest, state=state, origin=Origin.MOVED))

    def _copy(self, guest: SimulatedGuest, monitor: MigrationMonitor) -> None:
        """Take the time that copying takes, and tell of it."""
        duration, passed = self._host.live_migration_s, 0.0
        monitor.report(_progress(guest, 0.0))
        while passed < duration and not (monitor.abort_requested or monitor.completion_forced):
            pause = min(_REPORTED_EVERY_S, duration - passed)
            monitor.wait(pause)
            passed += pause
            monitor.report(_progress(guest, passed / duration))

    # --- what they share ----------------------------------------------------------------------------------------------

    def _take(self, seconds: float) -> None:
        if seconds:
            self._sleep(seconds)

    def _make(self, guest: GuestSpec, state: PowerState, origin: Origin, *, fails: str, to: str) -> None:
        if (reason := self._host.why_not(guest.image_properties)) is not None:
            raise UnsupportedGuest(reason)
        if self._is_to_fail(fails):
            raise DriverError(f"Simulated failure to {to} guest {guest.name}.")
        self._guests.put(guest.uuid, guest=SimulatedGuest.of(guest, state, origin))

    def _is_to_fail(self, what: str) -> bool:
        left = self._failures_left[what]
        self._failures_left[what] = left - (left > 0)
        return left != 0

    def _is_kept(self, uuid: str, *, beside_guest: bool = False) -> bool:
        """Tell whether a guest is kept for the present move. Raises: DriverError if it is for an earlier one."""
        if self._guests.kept(uuid) is None:
            return False
        if self._guests.guest(uuid) is not None and not beside_guest:
            raise DriverError(f"Guest {uuid} is still kept from an earlier move.")
        return True

    def _present(self, uuid: str) -> SimulatedGuest:
        """Return a guest that is whole. Raises: DriverError."""
        guest = self._guests.guest(uuid)
        if guest is None:
            raise DriverError(f"Guest {uuid} does not exist.")
        if guest.origin is Origin.INCOMING:
            raise DriverError(f"Guest {uuid} is not here yet.")
        return guest

    def _own(self, uuid: str) -> SimulatedGuest:
        """Return a guest as one that no move brought here, which a way back would not take for that of the move."""
        return replace(self._present(uuid), origin=Origin.SPAWNED)

    def _set_state(self, uuid: str, state: PowerState) -> None:
        with self._lock:
            self._guests.put(uuid, guest=replace(self._present(uuid), state=state))


def _progress(guest: SimulatedGuest, share: float) -> CopyProgress:
    memory, disk = guest.memory_mib << 20, guest.root_gib << 30
    copied, written = int(memory * share), int(disk * share)
    return CopyProgress(memory, copied, memory - copied, disk, written, disk - written)
