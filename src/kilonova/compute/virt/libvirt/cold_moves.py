# SPDX-License-Identifier: Apache-2.0
"""Resizes of libvirt guests on the same host, and reverts of these resizes.

The disks and the domain XML of a kept guest are in a separate folder; libvirt has no definition of the kept guest.
"""

from dataclasses import replace

from kilonova.compute.virt.base import ShutdownTimeout
from kilonova.compute.virt.libvirt.domain.marks import GuestMark, Origin, read_mark, with_mark
from kilonova.compute.virt.libvirt.domains import OwnDomain
from kilonova.compute.virt.libvirt.hypervisor import LibvirtHost
from kilonova.compute.virt.libvirt.power import Power
from kilonova.compute.virt.libvirt.rescued import from_own_disk
from kilonova.compute.virt.libvirt.spawns import state_when_started
from kilonova.errors import DriverError, GuestMissing
from kilonova.model.instance import GuestSpec, PowerState
from kilonova.records import dataclass


@dataclass(frozen=True, slots=True, eq=False)
class ColdMoves:
    """Keeps the original guest of a resize, and creates the resized guest from copies of the original's disks."""

    host: LibvirtHost
    power: Power

    def move_away(self, uuid: str, destination: str, timeout: ShutdownTimeout | None = None) -> None:
        del destination  # unused: the destination is this host in a resize, and "" in an evacuation
        with self.host.changes.ordered(uuid, PowerState.SHUTDOWN):
            domain = self.host.domains.find(uuid)
            is_made_here = domain is not None and domain.mark.origin is Origin.MOVED
            if uuid in self.host.disks.kept():
                if domain is not None and not is_made_here:
                    domain.undefine(for_good=False)  # an agent was killed between keep() and undefine()
                return
            if domain is None:
                raise GuestMissing(uuid)
            self.power.stop_domain(domain, timeout)
            own = from_own_disk(self.host, domain)
            if is_made_here:  # an earlier move, now confirmed, created this guest: mark it as an ordinary guest
                own = self._remarked(own, replace(own.mark, origin=Origin.SPAWNED))
            self.host.disks.keep(uuid)
            own.undefine(for_good=False)

    def finish_move(self, guest: GuestSpec, source: str, *, power_on: bool) -> None:
        del source  # unused: the source of a move is always this host
        after = state_when_started(guest) if power_on else PowerState.SHUTDOWN
        with self.host.changes.ordered(guest.uuid, after):
            domain = self.host.domains.find(guest.uuid)
            if domain is not None and domain.mark.origin is not Origin.MOVED:
                raise DriverError(f"Guest {guest.uuid} already exists and was not created by a move.")
            if domain is None:
                domain = self._make_of_kept(guest)
            if power_on:
                domain.power_on(paused=guest.starts_paused)
            else:
                domain.power_off()

    def return_home(self, guest: GuestSpec, *, power_on: bool) -> PowerState:
        uuid = guest.uuid
        with self.host.changes.ordered(uuid, PowerState.RUNNING if power_on else PowerState.SHUTDOWN):
            domain, is_kept = self.host.domains.find(uuid), uuid in self.host.disks.kept()
            if domain is not None and is_kept:
                raise DriverError(f"Guest {uuid} is kept, but the guest that the move created still exists.")
            if domain is None:
                if is_kept:
                    self.host.disks.take_back(uuid)
                domain = self._defined_as_noted(uuid)
                if power_on:
                    domain.power_on()
            elif power_on and domain.power_state() is not PowerState.PAUSED:
                self.power.start_domain(domain)
            return domain.power_state()

    def confirm_move(self, uuid: str) -> None:
        self.host.disks.drop_kept(uuid)
        domain = self.host.domains.find(uuid)
        if domain is not None and domain.mark.origin is Origin.MOVED:
            self._remarked(domain, replace(domain.mark, origin=Origin.SPAWNED))

    def abandon_move(self, uuid: str) -> None:
        domain, is_kept = self.host.domains.find(uuid), uuid in self.host.disks.kept()
        with self.host.changes.ordered(uuid, PowerState.SHUTDOWN if is_kept else PowerState.NOSTATE):
            if domain is not None and domain.mark.origin is Origin.MOVED:
                domain.undefine(for_good=not is_kept)
                domain = None
            if domain is None and is_kept:
                self.host.disks.remove_made(uuid)

    def _make_of_kept(self, guest: GuestSpec) -> OwnDomain:
        """Create a resized guest from the kept disks. Raises: DriverError; then no part of the new guest is left."""
        if guest.uuid not in self.host.disks.kept():
            raise GuestMissing(guest.uuid)
        self.host.require_possible(guest)
        try:
            return self.host.define(guest, self.host.disks.make_of_kept(guest), Origin.MOVED)
        except BaseException:
            self.host.disks.remove_made(guest.uuid)
            raise

    def _defined_as_noted(self, uuid: str) -> OwnDomain:
        noted = self.host.noted(uuid)
        mark = None if noted is None else read_mark(noted)
        if noted is None or mark is None:
            raise GuestMissing(uuid)
        return self.host.domains.define(noted, mark)

    def _remarked(self, domain: OwnDomain, mark: GuestMark) -> OwnDomain:
        """Change the mark of a guest in libvirt, and in the domain XML in the guest's folder. Raises: DriverError."""
        domain.remark(mark)
        noted = self.host.noted(domain.uuid)
        if noted is not None:
            self.host.note(domain.uuid, with_mark(noted, mark))
        return OwnDomain(domain.handle, mark)
