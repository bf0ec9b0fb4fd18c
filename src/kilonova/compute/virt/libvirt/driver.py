# SPDX-License-Identifier: Apache-2.0
"""Real guests on one host: QEMU by libvirt."""

from collections.abc import Mapping
from datetime import datetime

from kilonova.compute.virt.libvirt.cold_moves import ColdMoves
from kilonova.compute.virt.libvirt.consoles import Consoles
from kilonova.compute.virt.libvirt.diagnostics import Diagnostics
from kilonova.compute.virt.libvirt.live_migrations import LiveMigrations
from kilonova.compute.virt.libvirt.reboots import Reboots
from kilonova.compute.virt.libvirt.rescues import Rescues
from kilonova.compute.virt.libvirt.snapshots import Snapshots
from kilonova.errors import HypervisorAway
from kilonova.model.host import NodeReport
from kilonova.model.instance import PowerState


class LibvirtDriver(Reboots, Rescues, ColdMoves, LiveMigrations, Snapshots, Consoles, Diagnostics):
    """A :class:`kilonova.compute.virt.base.VirtDriver`, put together of what it can do."""

    def report(self) -> NodeReport:
        return self._report.report(self._connection.use())

    def list_guests(self) -> Mapping[str, PowerState]:
        return self._states()

    def changed_guests(self) -> Mapping[str, PowerState]:
        try:
            self._connection.use()  # events come only as long as there is a connection
            return self._changes.take()
        except HypervisorAway:  # which is logged once, and not every second
            return {}

    def marked_guests(self) -> Mapping[str, datetime]:
        kept = {uuid: mark.ordered_at for uuid in self._disks.kept() if (mark := self._kept_mark(uuid)) is not None}
        return {**kept, **{domain.uuid: domain.mark.ordered_at for domain in self._domains.all()}}

    def close(self) -> None:
        self._console_logs.stop()
        self._connection.close()
