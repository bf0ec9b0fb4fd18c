# SPDX-License-Identifier: Apache-2.0
"""Guests of a simulated hypervisor are moved while they are off."""

from dataclasses import replace

from kilonova.compute.virt.base import ShutdownPatience
from kilonova.compute.virt.fake.guests import Origin
from kilonova.compute.virt.fake.hypervisor import AWAKE, SimulatedHypervisor
from kilonova.errors import DriverError
from kilonova.model.instance import GuestSpec, PowerState


class ColdMoves(SimulatedHypervisor):
    """Moves a guest away or here, and keeps what a move can still go back to."""

    def move_away(self, uuid: str, destination: str, patience: ShutdownPatience | None = None) -> None:
        self._take(self._host.move_delay_s)
        guest = self._guests.guest(uuid)
        if guest is not None and guest.state is PowerState.RUNNING and self._guests.kept(uuid) is None:
            self._shut_down(patience)
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
                self._make(guest, state, Origin.MOVED, fails="move", to="move", source=source)

    def return_home(self, guest: GuestSpec, *, power_on: bool) -> PowerState:
        self._take(self._host.move_delay_s)
        with self._lock:
            present, kept = self._guests.guest(guest.uuid), self._guests.kept(guest.uuid)
            if present is not None and kept is not None:
                raise DriverError(f"Guest {guest.uuid} is kept, and the one that a move made is still there.")
            back = self._own(guest.uuid) if kept is None else kept
            if not power_on and kept is not None:
                back = replace(back, state=PowerState.SHUTDOWN)
            elif power_on and back.state not in AWAKE:
                back = back.booted("start")
            self._guests.put(guest.uuid, guest=back, kept=None)
            return back.state

    def confirm_move(self, uuid: str) -> None:
        with self._lock:
            guest = self._guests.guest(uuid)
            if guest is not None and guest.origin is Origin.MOVED:  # from now on it is here like any other
                guest = replace(guest, origin=Origin.SPAWNED)
            self._guests.put(uuid, guest=guest, kept=None)

    def abandon_move(self, uuid: str) -> None:
        with self._lock:
            guest = self._guests.guest(uuid)
            if guest is not None and guest.origin is not Origin.SPAWNED:
                self._guests.put(uuid, guest=None)
