# SPDX-License-Identifier: Apache-2.0
"""Driver of a simulated hypervisor. Its guests are records in a file, so they outlive the agent, as real guests do."""

import time
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path

from kilonova.compute.files.images import HostImages
from kilonova.compute.virt.abilities import MigrationMonitor, Rescue, SnapshotMonitor
from kilonova.compute.virt.base import ShutdownTimeout
from kilonova.compute.virt.fake.cold_moves import ColdMoves
from kilonova.compute.virt.fake.consoles import Consoles
from kilonova.compute.virt.fake.diagnostics import Diagnostics
from kilonova.compute.virt.fake.hypervisor import ConsoleAddresses, SimulatedHypervisor
from kilonova.compute.virt.fake.image_cache import ImageCache
from kilonova.compute.virt.fake.interfaces import Interfaces
from kilonova.compute.virt.fake.live_migrations import LiveMigrations
from kilonova.compute.virt.fake.power import Power
from kilonova.compute.virt.fake.reboots import Reboots
from kilonova.compute.virt.fake.rebuilds import Rebuilds
from kilonova.compute.virt.fake.rescues import Rescues
from kilonova.compute.virt.fake.snapshots import Snapshots
from kilonova.model.ability import Ability
from kilonova.model.allocation_ratios import AllocationRatios
from kilonova.model.cached_image import CachedImage
from kilonova.model.console import ConsoleEnd, ConsoleProtocol
from kilonova.model.guest_diagnostics import GuestDiagnostics
from kilonova.model.host import NodeReport
from kilonova.model.image_data import CacheResult, ImageData
from kilonova.model.instance import GuestSpec, PowerState
from kilonova.model.network_info import Vif
from kilonova.scenario.model import SimulatedHost


class FakeDriver:
    """A driver with every ability. Each method only calls one of the driver's parts, which share one ``hypervisor``.

    The parts depend only on their constructor arguments, so each can be read and tested alone. The methods are written
    out, not generated, so that they can be type-checked and overridden.
    ``lacks``: abilities that the host of a test or scenario does not have. See :class:`SimulatedHypervisor` for the
    other arguments.
    """

    def __init__(
        self,
        host: SimulatedHost,
        state_file: Path,
        ratios: AllocationRatios,
        *,
        images: HostImages | None = None,
        addresses: Mapping[ConsoleProtocol, ConsoleAddresses] | None = None,
        lacks: frozenset[Ability] = frozenset(),
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.hypervisor = SimulatedHypervisor(host, state_file, ratios, images=images, addresses=addresses, sleep=sleep)
        self._lacks = lacks
        self._power = Power(self.hypervisor)
        self._reboots = Reboots(self.hypervisor, self._power)
        self._rebuilds = Rebuilds(self.hypervisor)
        self._rescues = Rescues(self.hypervisor)
        self._consoles = Consoles(self.hypervisor)
        self._diagnostics = Diagnostics(self.hypervisor)
        self._cold_moves = ColdMoves(self.hypervisor)
        self._live_migrations = LiveMigrations(self.hypervisor)
        self._snapshots = Snapshots(self.hypervisor)
        self._interfaces = Interfaces(self.hypervisor)
        self._image_cache = ImageCache(self.hypervisor)

    @property
    def lacks(self) -> frozenset[Ability]:
        return self._lacks if self.hypervisor.images is not None else self._lacks | {Ability.IMAGE_CACHE}

    # --- VirtDriver ---------------------------------------------------------------------------------------------------

    def report(self) -> NodeReport:
        return self.hypervisor.report()

    def list_guests(self) -> Mapping[str, PowerState]:
        return self.hypervisor.states()

    def changed_guests(self) -> Mapping[str, PowerState]:
        return self.hypervisor.changes()

    def marked_guests(self) -> Mapping[str, datetime]:
        return self.hypervisor.marks()

    def spawn(self, guest: GuestSpec) -> None:
        self.hypervisor.take(self.hypervisor.host.spawn_delay_s)
        self.hypervisor.spawn(guest)

    def destroy(self, uuid: str) -> None:
        self.hypervisor.destroy(uuid)

    def start(self, uuid: str) -> None:
        self._power.start(uuid)

    def stop(self, uuid: str, timeout: ShutdownTimeout | None = None) -> None:
        self._power.stop(uuid, timeout)

    def close(self) -> None:
        self._consoles.close()

    # --- optional abilities -------------------------------------------------------------------------------------------

    def soft_reboot(self, uuid: str, timeout: ShutdownTimeout) -> None:
        self._reboots.soft_reboot(uuid, timeout)

    def hard_reboot(self, uuid: str, guest: GuestSpec | None) -> None:
        self._reboots.hard_reboot(uuid, guest)

    def pause(self, uuid: str) -> None:
        self._power.pause(uuid)

    def unpause(self, uuid: str) -> None:
        self._power.unpause(uuid)

    def suspend(self, uuid: str) -> None:
        self._power.suspend(uuid)

    def resume(self, uuid: str) -> None:
        self._power.resume(uuid)

    def rebuild(self, guest: GuestSpec, *, power_on: bool) -> None:
        self._rebuilds.rebuild(guest, power_on=power_on)

    def rescue(self, guest: GuestSpec, rescue: Rescue, timeout: ShutdownTimeout | None = None) -> None:
        self._rescues.rescue(guest, rescue, timeout)

    def unrescue(self, uuid: str) -> None:
        self._rescues.unrescue(uuid)

    def set_admin_password(self, uuid: str, admin_password: str) -> None:
        self._rescues.set_admin_password(uuid, admin_password)

    def crash_dump(self, uuid: str) -> None:
        self._rescues.crash_dump(uuid)

    def console_output(self, uuid: str, lines: int | None) -> str:
        return self._consoles.console_output(uuid, lines)

    def console_end(self, uuid: str, protocol: ConsoleProtocol) -> ConsoleEnd:
        return self._consoles.console_end(uuid, protocol)

    def diagnostics(self, uuid: str) -> GuestDiagnostics:
        return self._diagnostics.diagnostics(uuid)

    def return_home(self, guest: GuestSpec, *, power_on: bool) -> PowerState:
        return self._cold_moves.return_home(guest, power_on=power_on)

    def confirm_move(self, uuid: str) -> None:
        self._cold_moves.confirm_move(uuid)

    def abandon_move(self, uuid: str) -> None:
        self._cold_moves.abandon_move(uuid)

    def move_away(self, uuid: str, destination: str, timeout: ShutdownTimeout | None = None) -> None:
        self._cold_moves.move_away(uuid, destination, timeout)

    def finish_move(self, guest: GuestSpec, source: str, *, power_on: bool) -> None:
        self._cold_moves.finish_move(guest, source, power_on=power_on)

    def prepare_live_migration(self, guest: GuestSpec, source: str) -> None:
        self._live_migrations.prepare_live_migration(guest, source)

    def live_migrate(self, uuid: str, destination: str, monitor: MigrationMonitor) -> PowerState:
        return self._live_migrations.live_migrate(uuid, destination, monitor)

    def activate_migrated(self, uuid: str, *, paused: bool) -> None:
        self._live_migrations.activate_migrated(uuid, paused=paused)

    def snapshot(self, uuid: str, image_id: str, base: ImageData | None, monitor: SnapshotMonitor) -> None:
        self._snapshots.snapshot(uuid, image_id, base, monitor)

    def upload_snapshot(self, uuid: str, image: ImageData, monitor: SnapshotMonitor) -> None:
        self._snapshots.upload_snapshot(uuid, image, monitor)

    def discard_snapshot(self, uuid: str) -> None:
        self._snapshots.discard_snapshot(uuid)

    def attach_interface(self, uuid: str, vif: Vif) -> None:
        self._interfaces.attach_interface(uuid, vif)

    def detach_interface(self, uuid: str, vif: Vif) -> None:
        self._interfaces.detach_interface(uuid, vif)

    def cache_image(self, image: ImageData) -> CacheResult:
        return self._image_cache.cache_image(image)

    def cached_images(self) -> tuple[CachedImage, ...]:
        return self._image_cache.cached_images()
