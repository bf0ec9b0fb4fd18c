# SPDX-License-Identifier: Apache-2.0
"""A simulated hypervisor. Its guests live in a file of its own, so it outlives its agent as a real one would."""

from collections.abc import Mapping
from datetime import datetime

from kilonova.compute.virt.fake.cold_moves import ColdMoves
from kilonova.compute.virt.fake.consoles import Consoles
from kilonova.compute.virt.fake.diagnostics import Diagnostics
from kilonova.compute.virt.fake.live_migrations import LiveMigrations
from kilonova.compute.virt.fake.reboots import Reboots
from kilonova.compute.virt.fake.rebuilds import Rebuilds
from kilonova.compute.virt.fake.rescues import Rescues
from kilonova.compute.virt.fake.snapshots import Snapshots
from kilonova.model.host import NodeReport
from kilonova.model.instance import GuestSpec, PowerState


class FakeDriver(Reboots, Consoles, Diagnostics, Rescues, Rebuilds, ColdMoves, LiveMigrations, Snapshots):
    """A :class:`kilonova.compute.virt.base.VirtDriver`, put together of what it can do."""

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

    def changed_guests(self) -> Mapping[str, PowerState]:
        with self._lock:
            return self._guests.take_changes()

    def marked_guests(self) -> Mapping[str, datetime]:
        with self._lock:
            places = self._guests.places.items()
            return {uuid: place.ordered_at for uuid, place in places if place.ordered_at is not None}

    def spawn(self, guest: GuestSpec) -> None:
        self._take(self._host.spawn_delay_s)
        self._spawn(guest)

    def destroy(self, uuid: str) -> None:
        self._take(self._host.destroy_delay_s)
        with self._lock:
            self._guests.put(uuid, guest=None, kept=None)
