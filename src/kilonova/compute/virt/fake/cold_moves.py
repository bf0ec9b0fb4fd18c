# SPDX-License-Identifier: Apache-2.0
"""Cold moves and resizes of simulated guests."""

from dataclasses import replace

from kilonova.compute.virt.base import ShutdownTimeout
from kilonova.compute.virt.fake.guests import Origin
from kilonova.compute.virt.fake.hypervisor import AWAKE, SimulatedHypervisor
from kilonova.errors import DriverError
from kilonova.model.instance import GuestSpec, PowerState
from kilonova.records import dataclass


@dataclass(frozen=True, slots=True, eq=False)
class ColdMoves:
    """Moves powered-off guests to and from a host, and keeps the original guests for a revert."""

    hypervisor: SimulatedHypervisor

    def move_away(self, uuid: str, destination: str, timeout: ShutdownTimeout | None = None) -> None:
        self.hypervisor.take(self.hypervisor.host.move_delay_s)
        guest = self.hypervisor.guests.guest(uuid)
        if guest is not None and guest.state is PowerState.RUNNING and self.hypervisor.guests.kept(uuid) is None:
            self.hypervisor.shut_down(timeout)
        with self.hypervisor.lock:
            guest = self.hypervisor.guests.guest(uuid)
            is_made_here = (
                destination == self.hypervisor.host.name and guest is not None and guest.origin is Origin.MOVED
            )
            if not self.hypervisor.is_kept(uuid, beside_guest=is_made_here):
                self.hypervisor.guests.put(uuid, guest=None, kept=self.hypervisor.own(uuid))

    def finish_move(self, guest: GuestSpec, source: str, *, power_on: bool) -> None:
        self.hypervisor.take(self.hypervisor.host.move_delay_s)
        state = PowerState.RUNNING if power_on else PowerState.SHUTDOWN
        with self.hypervisor.lock:
            present = self.hypervisor.guests.guest(guest.uuid)
            if present is not None:
                if present.origin is not Origin.MOVED:
                    raise DriverError(f"Guest {guest.uuid} already exists and was not created by a move.")
                self.hypervisor.guests.put(guest.uuid, guest=replace(present, state=state))
            elif source == self.hypervisor.host.name and self.hypervisor.guests.kept(guest.uuid) is None:
                raise DriverError(f"Guest {guest.uuid} does not exist.")
            else:
                self.hypervisor.make(guest, state, Origin.MOVED, fails="move", to="move", source=source)

    def return_home(self, guest: GuestSpec, *, power_on: bool) -> PowerState:
        self.hypervisor.take(self.hypervisor.host.move_delay_s)
        with self.hypervisor.lock:
            present, kept = self.hypervisor.guests.guest(guest.uuid), self.hypervisor.guests.kept(guest.uuid)
            if present is not None and kept is not None:
                raise DriverError(f"Guest {guest.uuid} is kept, but the guest that the move created still exists.")
            back = self.hypervisor.own(guest.uuid) if kept is None else kept
            if not power_on and kept is not None:
                back = replace(back, state=PowerState.SHUTDOWN)
            elif power_on and (back.state not in AWAKE or (kept is not None and back.state is PowerState.RUNNING)):
                back = self.hypervisor.started(back, guest, "start")
            self.hypervisor.guests.put(guest.uuid, guest=back, kept=None)
            return back.state

    def confirm_move(self, uuid: str) -> None:
        with self.hypervisor.lock:
            guest = self.hypervisor.guests.guest(uuid)
            if guest is not None and guest.origin is Origin.MOVED:  # the moved guest becomes an ordinary guest
                guest = replace(guest, origin=Origin.SPAWNED)
            self.hypervisor.guests.put(uuid, guest=guest, kept=None)

    def abandon_move(self, uuid: str) -> None:
        with self.hypervisor.lock:
            guest = self.hypervisor.guests.guest(uuid)
            if guest is not None and guest.origin is not Origin.SPAWNED:
                self.hypervisor.guests.put(uuid, guest=None)
