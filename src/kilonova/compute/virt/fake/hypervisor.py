# SPDX-License-Identifier: Apache-2.0
"""What all abilities of a simulated hypervisor have in common: its guests, and what takes time or fails there."""

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from kilonova.compute.images import HostImages
from kilonova.compute.virt.base import ShutdownPatience
from kilonova.compute.virt.fake.disks import Disks
from kilonova.compute.virt.fake.drives import Drives
from kilonova.compute.virt.fake.guests import GuestFile, Origin, SimulatedGuest
from kilonova.errors import DriverError, GuestMissing, UnsupportedGuest
from kilonova.model.console import ConsoleProtocol
from kilonova.model.instance import GuestSpec, PowerState
from kilonova.scenario.model import AllocationRatios, SimulatedHost

#: A guest in one of these states has its memory.
AWAKE = (PowerState.RUNNING, PowerState.PAUSED)


@dataclass(frozen=True, slots=True)
class ConsoleAddresses:
    """Where a host listens for those who use consoles, and how it is called by them."""

    listen: str = "127.0.0.1"
    reached_at: str = "127.0.0.1"


LOOPBACK = ConsoleAddresses()


class SimulatedHypervisor:
    """One host of a scenario with its guests. ``sleep`` stands for the time that a real hypervisor would take.

    ``images``: of the host, which are fetched for guests that are new; None for a host that reads none.
    ``addresses``: of the host, where consoles of its guests are; without any they are on the loopback interface.
    """

    def __init__(
        self,
        host: SimulatedHost,
        state_file: Path,
        ratios: AllocationRatios,
        *,
        images: HostImages | None = None,
        addresses: Mapping[ConsoleProtocol, ConsoleAddresses] | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._host = host
        self._ratios = ratios
        self._sleep = sleep
        self._images = images
        self._addresses = addresses or {}
        self._lock = threading.Lock()
        self._failures_left = {
            "spawn": host.failing_spawns,
            "move": host.failing_moves,
            "live migration": host.failing_live_migrations,
            "snapshot": host.failing_snapshots,
        }
        folder = state_file.parent
        self._disks, self._drives = Disks(folder / "disks", host.name), Drives(folder / "config_drives", host.name)
        self._guests = GuestFile(host.name, state_file, on_gone=self._remove_disks)
        self._disks.keep_only(self._guests.places.keys())
        self._drives.keep_only(self._guests.places.keys())

    def _remove_disks(self, uuid: str) -> None:
        self._disks.remove(uuid)
        self._drives.remove(uuid)

    def _take(self, seconds: float) -> None:
        if seconds:
            self._sleep(seconds)

    def _shut_down(self, patience: ShutdownPatience | None) -> None:
        """Take the time that a guest takes to shut down, as far as somebody waits for that. Raises: AgentStopsError."""
        takes_s = self._host.shutdown_delay_s
        if takes_s and patience is not None:
            patience.wait(takes_s if takes_s > 0 else float("inf"))

    def _spawn(self, guest: GuestSpec) -> None:
        data = None
        if self._images is not None and guest.image is not None and guest.uuid not in self._guests.places:
            data = self._images.fetch(guest.image)
        with self._lock:
            if self._guests.guest(guest.uuid) is None:
                self._make(guest, PowerState.RUNNING, Origin.SPAWNED, fails="spawn", to="start", data=data)

    def _make(
        self,
        guest: GuestSpec,
        state: PowerState,
        origin: Origin,
        *,
        fails: str,
        to: str,
        data: Path | None = None,
        source: str | None = None,
        **also: SimulatedGuest | None,
    ) -> None:
        """Make a guest, and what ``also`` says. Raises: UnsupportedGuest, DriverError; then nothing is changed.

        ``data``: what its disk is made of, or ``source``: the host from which it brings one.
        """
        if (reason := self._host.why_not(guest.image_properties)) is not None:
            raise UnsupportedGuest(reason)
        if self._is_to_fail(fails):
            raise DriverError(f"Simulated failure to {to} guest {guest.name}.")
        if data is not None:
            self._disks.make(guest.uuid, data)
        elif source not in {None, self._host.name}:
            self._disks.take_from(str(source), guest.uuid)
        made = SimulatedGuest.of(guest, state, origin)
        self._drives.end_rescue(guest.uuid)
        self._drives.make(guest)
        try:
            self._guests.put(
                guest.uuid, guest=made.booted("first start") if state is PowerState.RUNNING else made, **also
            )
        except DriverError:
            self._drives.keep_only(self._guests.places.keys())
            raise

    def _is_to_fail(self, what: str) -> bool:
        left = self._failures_left[what]
        self._failures_left[what] = left - (left > 0)
        return left != 0

    def _present(self, uuid: str) -> SimulatedGuest:
        """Return a guest that is whole. Raises: DriverError."""
        guest = self._guests.guest(uuid)
        if guest is None:
            raise GuestMissing(uuid)
        if guest.origin is Origin.INCOMING:
            raise DriverError(f"Guest {uuid} is not here yet.")
        return guest

    def _own(self, uuid: str) -> SimulatedGuest:
        """Return a guest as one that no move brought here, which a way back would not take for that of the move."""
        return replace(self._present(uuid), origin=Origin.SPAWNED)

    def _set_state(self, uuid: str, state: PowerState) -> None:
        with self._lock:
            self._guests.put(uuid, guest=replace(self._present(uuid), state=state))

    def _is_kept(self, uuid: str, *, beside_guest: bool = False) -> bool:
        """Tell whether a guest is kept for the present move. Raises: DriverError if it is for an earlier one."""
        if self._guests.kept(uuid) is None:
            return False
        if self._guests.guest(uuid) is not None and not beside_guest:
            raise DriverError(f"Guest {uuid} is still kept from an earlier move.")
        return True
