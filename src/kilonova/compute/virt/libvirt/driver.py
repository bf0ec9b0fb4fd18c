# SPDX-License-Identifier: Apache-2.0
"""Driver for real guests: QEMU through libvirt."""

from collections.abc import Mapping, Sequence
from datetime import datetime

from kilonova.compute.virt.abilities import Rescue, SnapshotMonitor
from kilonova.compute.virt.base import ShutdownTimeout
from kilonova.compute.virt.host_setup import HostSetup
from kilonova.compute.virt.libvirt.cold_moves import ColdMoves
from kilonova.compute.virt.libvirt.consoles import Consoles
from kilonova.compute.virt.libvirt.diagnostics import Diagnostics
from kilonova.compute.virt.libvirt.hypervisor import LibvirtHost
from kilonova.compute.virt.libvirt.image_cache import ImageCache
from kilonova.compute.virt.libvirt.interfaces import Interfaces
from kilonova.compute.virt.libvirt.power import Power
from kilonova.compute.virt.libvirt.reboots import Reboots
from kilonova.compute.virt.libvirt.rescues import Rescues
from kilonova.compute.virt.libvirt.snapshots import Snapshots
from kilonova.compute.virt.libvirt.spawns import Spawns
from kilonova.config.consoles import ConsoleSettings
from kilonova.config.libvirt import LibvirtSettings
from kilonova.model.ability import Ability
from kilonova.model.cached_image import CachedImage
from kilonova.model.console import ConsoleEnd, ConsoleProtocol
from kilonova.model.guest_diagnostics import GuestDiagnostics
from kilonova.model.host import NodeReport
from kilonova.model.image_data import CacheResult, ImageData
from kilonova.model.instance import GuestSpec, PowerState
from kilonova.model.network_info import Vif
from kilonova.periodic import PeriodicThread


class LibvirtDriver:
    """A driver with every ability except moves between hosts. Each method only calls one of the driver's parts.

    The parts share one ``host``. They depend only on their constructor arguments, so each can be read and tested alone.
    The methods are written out, not generated, so that they can be type-checked and overridden.
    """

    #: Guests can be resized only on their present host: copying disks to other hosts is not implemented yet.
    lacks = frozenset({Ability.COLD_MIGRATE})

    def __init__(self, setup: HostSetup, settings: LibvirtSettings, consoles: ConsoleSettings | None = None) -> None:
        self.host = LibvirtHost(setup, settings, consoles)
        self._spawns = Spawns(self.host)
        self._power = Power(self.host)
        self._reboots = Reboots(self.host, self._power, self._spawns)
        self._rescues = Rescues(self.host, self._power)
        self._consoles = Consoles(self.host)
        self._diagnostics = Diagnostics(self.host)
        self._cold_moves = ColdMoves(self.host, self._power)
        self._snapshots = Snapshots(self.host)
        self._interfaces = Interfaces(self.host)
        self._image_cache = ImageCache(self.host)

    # --- VirtDriver ---------------------------------------------------------------------------------------------------

    def report(self) -> NodeReport:
        return self.host.node_report()

    def list_guests(self) -> Mapping[str, PowerState]:
        return self.host.states()

    def changed_guests(self) -> Mapping[str, PowerState]:
        return self.host.take_changes()

    def marked_guests(self) -> Mapping[str, datetime]:
        return self.host.marks()

    def spawn(self, guest: GuestSpec) -> None:
        self._spawns.spawn(guest)

    def destroy(self, uuid: str) -> None:
        self._spawns.destroy(uuid)

    def start(self, uuid: str) -> None:
        self._power.start(uuid)

    def stop(self, uuid: str, timeout: ShutdownTimeout | None = None) -> None:
        self._power.stop(uuid, timeout)

    @property
    def periodic_threads(self) -> Sequence[PeriodicThread]:
        """The periodic tasks of the driver, which start when the driver is created."""
        return self.host.console_logs.periodic_threads

    def close(self) -> None:
        self.host.close()

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
        self._spawns.rebuild(guest, power_on=power_on)

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
