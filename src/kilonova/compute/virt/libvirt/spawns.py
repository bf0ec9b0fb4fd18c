# SPDX-License-Identifier: Apache-2.0
"""Creation, rebuild and removal of libvirt guests."""

import logging

from kilonova.compute.virt.libvirt.domain.marks import Origin
from kilonova.compute.virt.libvirt.domains import OwnDomain
from kilonova.compute.virt.libvirt.hypervisor import LibvirtHost
from kilonova.errors import DriverError
from kilonova.model.instance import GuestSpec, PowerState
from kilonova.records import dataclass

LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, eq=False)
class Spawns:
    """Creates guests from images, and removes them with all their files.

    A guest with ``starts_paused`` is started paused: its tap devices then exist, and the network service can plug them
    before the guest runs.
    """

    host: LibvirtHost

    def spawn(self, guest: GuestSpec) -> None:
        started = state_when_started(guest)
        with self.host.changes.ordered(guest.uuid, started):
            domain = self.host.domains.find(guest.uuid)
            if domain is not None and domain.power_state() in {PowerState.RUNNING, started}:
                return
            self.host.require_possible(guest)
            try:
                if domain is not None:  # an agent was killed after defining the domain and before starting it
                    domain.undefine()
                made = self.host.define(guest, self.host.disks.make(guest), Origin.SPAWNED)
                made.power_on(paused=guest.starts_paused)
            except BaseException:
                self._clear_away(guest.uuid)
                raise

    def destroy(self, uuid: str) -> None:
        with self.host.changes.ordered(uuid, PowerState.NOSTATE):
            domain = self.host.domains.find(uuid) or self._kept_domain(uuid)
            if domain is not None:
                domain.undefine()
            self.host.disks.remove(uuid)
            self.host.copies.discard(uuid)

    def rebuild(self, guest: GuestSpec, *, power_on: bool) -> None:
        after = state_when_started(guest) if power_on else PowerState.SHUTDOWN
        with self.host.changes.ordered(guest.uuid, after):
            domain = self.host.domains.find(guest.uuid)
            is_made = domain is not None and domain.mark.ordered_at == guest.ordered_at
            if domain is None or not is_made:
                self.host.require_possible(guest)
                self.host.disks.fetch(guest)  # fetch first: a bad image is rejected before the old domain is removed
                if domain is not None:
                    domain.undefine()
                try:
                    self.host.disks.remove(guest.uuid)
                    domain = self.host.define(guest, self.host.disks.make(guest), Origin.SPAWNED)
                except BaseException:
                    self._clear_away(guest.uuid)
                    raise
            if power_on:
                domain.power_on(paused=guest.starts_paused)
            else:
                domain.power_off()

    def _kept_domain(self, uuid: str) -> OwnDomain | None:
        """Define the domain of a kept guest, so that undefining it removes its firmware variables and TPM state."""
        try:
            noted, mark = self.host.noted(uuid, kept=True), self.host.kept_mark(uuid)
            return None if noted is None or mark is None else self.host.domains.define(noted, mark)
        except DriverError as error:
            LOG.warning("The firmware variables and TPM state of guest %s could not be removed: %s", uuid, error)
            return None

    def remake(self, guest: GuestSpec) -> None:
        """Create a guest that libvirt has lost, from its old disks if they exist. Raises: DriverError."""
        disks = self.host.disks.present(guest.uuid)
        self.host.define(guest, disks or self.host.disks.make(guest), Origin.SPAWNED).power_on()

    def _clear_away(self, uuid: str) -> None:
        """Remove the remains of a guest that could not be created. If this fails, the server's delete removes them."""
        try:
            domain = self.host.domains.find(uuid)
            if domain is not None:
                domain.undefine()
            self.host.disks.remove(uuid)
        except DriverError:
            LOG.exception("Guest %s could not be created, and its remains could not be removed", uuid)


def state_when_started(guest: GuestSpec) -> PowerState:
    """Return the power state of a guest that has been created and started."""
    return PowerState.PAUSED if guest.starts_paused else PowerState.RUNNING
