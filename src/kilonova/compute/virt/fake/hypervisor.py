# SPDX-License-Identifier: Apache-2.0
"""Shared part of the simulated driver: the guests of a hypervisor, simulated delays and failures."""

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from kilonova.compute.files.images import HostImages
from kilonova.compute.virt.base import ShutdownTimeout
from kilonova.compute.virt.fake.disks import Disks
from kilonova.compute.virt.fake.drives import Drives
from kilonova.compute.virt.fake.guests import GuestFile, Origin, SimulatedGuest
from kilonova.errors import DriverError, GuestMissing, UnsupportedGuest
from kilonova.model.allocation_ratios import AllocationRatios
from kilonova.model.console import ConsoleProtocol
from kilonova.model.host import NodeReport
from kilonova.model.instance import GuestSpec, PowerState
from kilonova.records import dataclass
from kilonova.scenario.model import SimulatedHost

#: Power states of a guest that is powered on.
AWAKE = (PowerState.RUNNING, PowerState.PAUSED)


@dataclass(frozen=True, slots=True)
class ConsoleAddresses:
    """Addresses of a host's consoles.

    ``listen``: address on which the host listens. ``reached_at``: address to which clients connect.
    """

    listen: str = "127.0.0.1"
    reached_at: str = "127.0.0.1"


LOOPBACK = ConsoleAddresses()


class SimulatedHypervisor:
    """One host of a scenario with its guests. ``sleep`` simulates the time that a real hypervisor takes.

    ``images``: the image cache of the host, from which new guests are created; None for a host without images.
    ``addresses``: the addresses of the host's consoles; the loopback interface by default.
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
        self.host = host
        self.ratios = ratios
        self.sleep = sleep
        self.images = images
        self.addresses = addresses or {}
        self.lock = threading.Lock()
        self.failures_left = {
            "spawn": host.failing_spawns,
            "move": host.failing_moves,
            "live migration": host.failing_live_migrations,
            "snapshot": host.failing_snapshots,
        }
        folder = state_file.parent
        self.disks, self.drives = Disks(folder / "disks", host.name), Drives(folder / "config_drives", host.name)
        self.guests = GuestFile(host.name, state_file, on_gone=self._remove_disks)
        self.disks.keep_only(self.guests.places.keys())
        self.drives.keep_only(self.guests.places.keys())

    def _remove_disks(self, uuid: str) -> None:
        self.disks.remove(uuid)
        self.drives.remove(uuid)

    def report(self) -> NodeReport:
        host = self.host
        return NodeReport(
            host=host.name,
            hypervisor_hostname=host.hypervisor_hostname,
            capabilities=host.capabilities,
            inventories=host.reported_inventories(self.ratios),
            traits=host.reported_traits,
            metrics=host.metrics,
            devices=host.devices,
        )

    def states(self) -> Mapping[str, PowerState]:
        with self.lock:
            return {uuid: place.power_state for uuid, place in self.guests.places.items()}

    def changes(self) -> Mapping[str, PowerState]:
        with self.lock:
            return self.guests.take_changes()

    def marks(self) -> Mapping[str, datetime]:
        with self.lock:
            places = self.guests.places.items()
            return {uuid: place.ordered_at for uuid, place in places if place.ordered_at is not None}

    def take(self, seconds: float) -> None:
        if seconds:
            self.sleep(seconds)

    def shut_down(self, timeout: ShutdownTimeout | None) -> None:
        """Simulate the shutdown of a guest, limited by ``timeout``. Raises: AgentStopsError."""
        takes_s = self.host.shutdown_delay_s
        if takes_s and timeout is not None:
            timeout.wait(takes_s if takes_s > 0 else float("inf"))

    def spawn(self, guest: GuestSpec) -> None:
        data = None
        if self.images is not None and guest.image is not None and guest.uuid not in self.guests.places:
            data = self.images.fetch(guest.image)
        with self.lock:
            if self.guests.guest(guest.uuid) is None:
                self.make(guest, PowerState.RUNNING, Origin.SPAWNED, fails="spawn", to="start", data=data)

    def destroy(self, uuid: str) -> None:
        self.take(self.host.destroy_delay_s)
        with self.lock:
            self.guests.put(uuid, guest=None, kept=None)

    def make(
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
        """Create a guest.

        ``data``: the file that the guest's disk is made from; if None, the disk is copied from the host ``source``.
        ``also``: changes that are stored together with the guest, such as the removal of the instance's kept guest.
        Raises: UnsupportedGuest, DriverError; then nothing is changed.
        """
        if (reason := self.host.why_not(guest.image_properties)) is not None:
            raise UnsupportedGuest(reason)
        if self.is_to_fail(fails):
            raise DriverError(f"Simulated failure to {to} guest {guest.name}.")
        if data is not None:
            self.disks.make(guest.uuid, data)
        elif source not in {None, self.host.name}:
            self.disks.take_from(str(source), guest.uuid)
        made = SimulatedGuest.of(guest, state, origin)
        if state is PowerState.RUNNING:
            made = self.started(made, guest, "first start")
        self.drives.end_rescue(guest.uuid)
        self.drives.make(guest)
        try:
            self.guests.put(guest.uuid, guest=made, **also)
        except DriverError:
            self.drives.keep_only(self.guests.places.keys())
            raise

    def started(self, made: SimulatedGuest, guest: GuestSpec, how: str) -> SimulatedGuest:
        """Return a guest after its start: running, or paused if the host waits for the plugging of its ports."""
        booted = made.booted(how)
        is_held = guest.starts_paused and self.host.starts_paused
        return replace(booted, state=PowerState.PAUSED) if is_held else booted

    def is_to_fail(self, what: str) -> bool:
        left = self.failures_left[what]
        self.failures_left[what] = left - (left > 0)
        return left != 0

    def present(self, uuid: str) -> SimulatedGuest:
        """Return a guest that is not incoming. Raises: DriverError."""
        guest = self.guests.guest(uuid)
        if guest is None:
            raise GuestMissing(uuid)
        if guest.origin is Origin.INCOMING:
            raise DriverError(f"Guest {uuid} is still being migrated to this host.")
        return guest

    def own(self, uuid: str) -> SimulatedGuest:
        """Return a guest with the origin SPAWNED, so that the revert of a move will not remove the guest."""
        return replace(self.present(uuid), origin=Origin.SPAWNED)

    def set_state(self, uuid: str, state: PowerState) -> None:
        with self.lock:
            self.guests.put(uuid, guest=replace(self.present(uuid), state=state))

    def is_kept(self, uuid: str, *, beside_guest: bool = False) -> bool:
        """Tell whether a guest is kept for the present move. Raises: DriverError if kept for an earlier move."""
        if self.guests.kept(uuid) is None:
            return False
        if self.guests.guest(uuid) is not None and not beside_guest:
            raise DriverError(f"Guest {uuid} is still kept from an earlier move.")
        return True
