# SPDX-License-Identifier: Apache-2.0
"""Real guests are made, made anew, and removed."""

import logging
from dataclasses import dataclass

from kilonova.compute.virt.libvirt.domain.marks import Origin
from kilonova.compute.virt.libvirt.domains import OwnDomain
from kilonova.compute.virt.libvirt.hypervisor import LibvirtHost
from kilonova.errors import DriverError
from kilonova.model.instance import GuestSpec, PowerState

LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, eq=False)
class Spawns:
    """Makes guests of images, and removes them with all that they have."""

    host: LibvirtHost

    def spawn(self, guest: GuestSpec) -> None:
        with self.host.changes.ordered(guest.uuid, PowerState.RUNNING):
            domain = self.host.domains.find(guest.uuid)
            if domain is not None and domain.power_state() is PowerState.RUNNING:
                return
            self.host.require_possible(guest)
            try:
                if domain is not None:  # an agent was killed when it had made it, and had not started it
                    domain.undefine()
                self.host.define(guest, self.host.disks.make(guest), Origin.SPAWNED).power_on()
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
        after = PowerState.RUNNING if power_on else PowerState.SHUTDOWN
        with self.host.changes.ordered(guest.uuid, after):
            domain = self.host.domains.find(guest.uuid)
            is_made = domain is not None and domain.mark.ordered_at == guest.ordered_at
            if domain is None or not is_made:
                self.host.require_possible(guest)
                self.host.disks.fetch(guest)  # whatever may be wrong with an image is found before anything is removed
                if domain is not None:
                    domain.undefine()
                try:
                    self.host.disks.remove(guest.uuid)
                    domain = self.host.define(guest, self.host.disks.make(guest), Origin.SPAWNED)
                except BaseException:
                    self._clear_away(guest.uuid)
                    raise
            if power_on:
                domain.power_on()
            else:
                domain.power_off()

    def _kept_domain(self, uuid: str) -> OwnDomain | None:
        """Have libvirt know a guest that is only kept, so that it can forget what that guest's TPM remembers."""
        try:
            noted, mark = self.host.noted(uuid, kept=True), self.host.kept_mark(uuid)
            return None if noted is None or mark is None else self.host.domains.define(noted, mark)
        except DriverError as error:
            LOG.warning("What firmware and TPM of guest %s remember stays where libvirt keeps it: %s", uuid, error)
            return None

    def remake(self, guest: GuestSpec) -> None:
        """Make a guest that libvirt has lost, of the disks that it had if these are there. Raises: DriverError."""
        disks = self.host.disks.present(guest.uuid)
        self.host.define(guest, disks or self.host.disks.make(guest), Origin.SPAWNED).power_on()

    def _clear_away(self, uuid: str) -> None:
        """Remove what there is of a guest that could not be made; what fails now is removed with its server."""
        try:
            domain = self.host.domains.find(uuid)
            if domain is not None:
                domain.undefine()
            self.host.disks.remove(uuid)
        except DriverError:
            LOG.exception("Something is left of guest %s, which could not be made", uuid)
