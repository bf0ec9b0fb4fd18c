# SPDX-License-Identifier: Apache-2.0
"""Real guests are not moved while they run yet: every request for that is refused before anything is touched."""

from kilonova.compute.virt.base import MigrationMonitor
from kilonova.compute.virt.libvirt.hypervisor import LibvirtHost
from kilonova.errors import Unsupported, UnsupportedGuest
from kilonova.model.instance import GuestSpec, PowerState

_NOT_YET = "Guests of libvirt hosts are not migrated live yet."


class LiveMigrations(LibvirtHost):
    """Refuses them."""

    def prepare_live_migration(self, guest: GuestSpec, source: str) -> None:
        del guest, source
        raise UnsupportedGuest(_NOT_YET)

    def live_migrate(self, uuid: str, destination: str, monitor: MigrationMonitor) -> PowerState:
        del uuid, destination, monitor
        raise Unsupported(_NOT_YET)

    def activate_migrated(self, uuid: str, *, paused: bool) -> None:
        del paused
        self._domains.get(uuid)
