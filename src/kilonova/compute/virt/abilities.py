# SPDX-License-Identifier: Apache-2.0
"""Optional abilities of hypervisor drivers: one protocol for each ability.

A driver has an ability if it implements all methods of the ability's protocol; there is no registration. The agent
determines the abilities of its driver once, at its start, and rejects orders that need a missing ability. The methods
that every driver must implement are in :class:`~kilonova.compute.virt.base.VirtDriver`.

The source host of a move keeps the original guest, the *kept* guest, until the move is confirmed or reverted. After a
resize on the same host, one host has both the kept guest and the new *guest* of an instance: orders to start, stop or
reboot concern the new guest. At the destination of a live migration the guest is *incoming*, and paused, until it is
activated.

There is no protocol for attaching volumes yet.
"""

import inspect
from collections.abc import Mapping
from dataclasses import field
from functools import cache
from typing import Protocol

from kilonova.compute.virt.base import ShutdownTimeout, VirtDriver
from kilonova.model.ability import Ability
from kilonova.model.cached_image import CachedImage
from kilonova.model.console import ConsoleEnd, ConsoleProtocol
from kilonova.model.guest_diagnostics import GuestDiagnostics
from kilonova.model.image_data import CacheResult, ImageData
from kilonova.model.instance import GuestSpec, PowerState
from kilonova.model.network_info import Vif
from kilonova.records import dataclass


class CanReboot(Protocol):
    """Ability.REBOOT: reboot guests."""

    def soft_reboot(self, uuid: str, timeout: ShutdownTimeout) -> None:
        """Shut a running guest down, as ``VirtDriver.stop`` does, then start it.

        Raises: DriverError, AgentStopsError.
        """

    def hard_reboot(self, uuid: str, guest: GuestSpec | None) -> None:
        """Power a guest off, in any state, and start it. A missing guest is created from the description ``guest``.

        Raises: GuestMissing if ``guest`` is None and this host has no guest, or only a kept guest; DriverError.
        """


class CanPause(Protocol):
    """Ability.PAUSE: pause guests."""

    def pause(self, uuid: str) -> None:
        """Pause a running guest; no error if the guest is already paused. Raises: DriverError."""

    def unpause(self, uuid: str) -> None:
        """Continue a paused guest; no error if the guest already runs. Raises: DriverError."""


class CanSuspend(Protocol):
    """Ability.SUSPEND: save guests to disk."""

    def suspend(self, uuid: str) -> None:
        """Save the memory of a running guest to disk and power it off; no error if the guest is already suspended.

        Raises: DriverError.
        """

    def resume(self, uuid: str) -> None:
        """Continue a suspended guest with its saved memory; no error if the guest already runs. Raises: DriverError."""


class CanRebuild(Protocol):
    """Ability.REBUILD: replace guests by new ones on the same host."""

    def rebuild(self, guest: GuestSpec, *, power_on: bool) -> None:
        """Create ``guest``, in place of the guest and the kept guest that the instance may have on this host.

        A present guest whose ``ordered_at`` equals that of ``guest`` was created by an earlier try of this rebuild:
        then only the power state of the guest is set. The image is fetched before the old guest is removed.
        Raises: UnsupportedGuest, DriverError; then the old guest is either unchanged or removed.
        """


@dataclass(frozen=True, slots=True)
class Rescue:
    """The rescue system of a guest.

    ``image``: location and ticket for the image ``image_ref``; None if the host has no access to the image.
    ``image_properties``: those properties of the image that RESCUE_PROPERTIES lists. If there is at least one, the
    guest's own disks keep their device names, and the rescue disk is added after them (stable device rescue).
    ``admin_password``: password of the rescue system; the config drive of the guest contains this password, too.
    """

    image_ref: str
    image: ImageData | None
    image_properties: Mapping[str, str] = field(default_factory=dict)
    admin_password: str = ""


class CanRescue(Protocol):
    """Ability.RESCUE: boot guests from a rescue image."""

    def rescue(self, guest: GuestSpec, rescue: Rescue, timeout: ShutdownTimeout | None = None) -> None:
        """Boot a guest from a rescue image, with its own disk attached; no error if it already runs from that image.

        ``timeout``: as for ``VirtDriver.stop``. ``guest``: contains the config drive that the guest has during the
        rescue, instead of its own; this drive is removed when the rescue ends.
        A start or a hard reboot boots the guest from its own disk again.
        Raises: DriverError, AgentStopsError; then the guest is either unchanged or powered off.
        """

    def unrescue(self, uuid: str) -> None:
        """Boot a guest from its own disk again; no error if the guest already runs from it. Raises: DriverError."""


class CanSetAdminPassword(Protocol):
    """Ability.ADMIN_PASSWORD: set the administrator's password inside guests."""

    def set_admin_password(self, uuid: str, admin_password: str) -> None:
        """Set the password inside a running guest.

        Raises: Unsupported if the guest has no guest agent that can set it; DriverError.
        """


class CanAttachInterfaces(Protocol):
    """Ability.ATTACH_INTERFACE: change the network interfaces of guests.

    A later order with a description of the guest, such as a hard reboot, contains the interfaces attached by then.
    """

    def attach_interface(self, uuid: str, vif: Vif) -> None:
        """Add an interface to a guest, which may be running; no error if the guest has it. Raises: DriverError."""

    def detach_interface(self, uuid: str, vif: Vif) -> None:
        """Remove an interface from a guest, which may be running; no error if the guest does not have it.

        Raises: DriverError, AgentStopsError.
        """


class CanCrashDump(Protocol):
    """Ability.CRASH_DUMP: trigger crash dumps of guests."""

    def crash_dump(self, uuid: str) -> None:
        """Make a running guest write a crash dump, by a non-maskable interrupt. Raises: DriverError."""


#: Size of the tail of a console log that is kept and returned, in bytes.
CONSOLE_BYTES = 100 * 1024


class CanReadConsoles(Protocol):
    """Ability.CONSOLE_OUTPUT: return the console logs of guests."""

    def console_output(self, uuid: str, lines: int | None) -> str:
        """Return the tail of a guest's console log, at most ``CONSOLE_BYTES``.

        ``lines``: number of lines to return, the last ones of the log; None for the whole tail.
        Raises: GuestMissing, DriverError.
        """


class CanOpenConsoles(Protocol):
    """Ability.CONSOLES: open interactive consoles of guests."""

    def console_end(self, uuid: str, protocol: ConsoleProtocol) -> ConsoleEnd:
        """Return the address of a running guest's console, valid as long as the guest runs on this host.

        Raises: GuestMissing, GuestNotRunning; Unsupported if the guest has no console of that protocol; DriverError.
        """


class CanDiagnose(Protocol):
    """Ability.DIAGNOSTICS: return usage counters of guests."""

    def diagnostics(self, uuid: str) -> GuestDiagnostics:
        """Return the diagnostics of a running guest.

        Raises: GuestMissing, GuestNotRunning, DriverError.
        """


class CanEndMoves(Protocol):
    """Methods that end a cold move or a live migration."""

    def return_home(self, guest: GuestSpec, *, power_on: bool) -> PowerState:
        """Restore the kept guest as it was before the move, and return its power state.

        No error if the guest has never left this host. ``power_on``: whether the guest is started; a guest that was
        paused before the move stays paused.
        Raises: DriverError, also if the guest that the move created still exists on this host.
        """

    def confirm_move(self, uuid: str) -> None:
        """Remove the kept guest, but no other guest; no error if absent. Raises: DriverError.

        After a resize on the same host the new guest becomes an ordinary guest.
        """

    def abandon_move(self, uuid: str) -> None:
        """Remove the guest that a move created on this host, even if it is incomplete; no error if absent.

        A guest that was not created by a move is not removed. Raises: DriverError.
        """


class CanMoveCold(CanEndMoves, Protocol):
    """Ability.RESIZE_SAME_HOST, Ability.COLD_MIGRATE: move or resize guests that are powered off.

    If a driver resizes guests on their host but does not move them between hosts, its attribute ``lacks`` contains
    COLD_MIGRATE; see :func:`abilities_of`.
    """

    def move_away(self, uuid: str, destination: str, timeout: ShutdownTimeout | None = None) -> None:
        """Shut a guest down, as ``VirtDriver.stop`` does, and keep it for the move; no error if it is already kept.

        Raises: DriverError, AgentStopsError.
        """

    def finish_move(self, guest: GuestSpec, source: str, *, power_on: bool) -> None:
        """Create the guest on this host from the guest that the host ``source`` keeps, with the size in ``guest``.

        No error if a move has already created the guest.
        Raises: UnsupportedGuest, DriverError; then no part of the new guest is left on this host.
        """


@dataclass(frozen=True, slots=True)
class CopyProgress:
    """Progress of copying a guest's memory and disks. Units: bytes."""

    memory_total_bytes: int = 0
    memory_processed_bytes: int = 0
    memory_remaining_bytes: int = 0
    disk_total_bytes: int = 0
    disk_processed_bytes: int = 0
    disk_remaining_bytes: int = 0


class MigrationMonitor(Protocol):
    """Channel for abort requests and progress while a driver copies a running guest."""

    @property
    def abort_requested(self) -> bool:
        """Whether the migration is to be aborted, if that is still possible."""

    @property
    def completion_forced(self) -> bool:
        """Whether the migration is to complete soon, even if the guest has to be paused for it."""

    def report(self, progress: CopyProgress) -> None:
        """Report the progress of copying; called about every second."""

    def wait(self, seconds: float) -> None:
        """Wait for ``seconds``, or until an abort or completion is requested. Raises: AgentStopsError."""


class CanMigrateLive(CanEndMoves, Protocol):
    """Ability.LIVE_MIGRATE: move running guests."""

    def prepare_live_migration(self, guest: GuestSpec, source: str) -> None:
        """Create an incoming guest, which is paused.

        Raises: UnsupportedGuest, DriverError; then no part of the incoming guest is left.
        """

    def live_migrate(self, uuid: str, destination: str, monitor: MigrationMonitor) -> PowerState:
        """Copy a guest to the host ``destination`` and keep the original; return the guest's state, running or paused.

        No error if the guest is already kept. Raises: MigrationAborted, DriverError; then the guest is unchanged.
        """

    def activate_migrated(self, uuid: str, *, paused: bool) -> None:
        """Start an incoming guest, or leave it ``paused``; no error if the guest is no longer incoming.

        Raises: DriverError.
        """


class SnapshotMonitor(Protocol):
    """Cancellation check for a driver that copies or uploads a disk."""

    def check(self) -> None:
        """Raise SnapshotCancelled after a cancellation, AgentStopsError if the agent is stopping.

        To be called often.
        """


class CanSnapshot(Protocol):
    """Ability.SNAPSHOT: create images from the disks of guests."""

    def snapshot(self, uuid: str, image_id: str, base: ImageData | None, monitor: SnapshotMonitor) -> None:
        """Copy the present disk of a guest, for a new image; no error if a copy for that image exists.

        ``base``: the image that the guest was created from, in case the host has to download this image again.
        The guest is not changed. Raises: SnapshotCancelled, DriverError; then no copy is left.
        """

    def upload_snapshot(self, uuid: str, image: ImageData, monitor: SnapshotMonitor) -> None:
        """Upload the disk copy for an image, then remove the copy; no error if it is already uploaded.

        Raises: SnapshotCancelled, DriverError; then the copy is kept for a retry.
        """

    def discard_snapshot(self, uuid: str) -> None:
        """Remove the copies of a guest's disk; no error if there are none. Raises: DriverError."""


class CanCacheImages(Protocol):
    """Ability.IMAGE_CACHE: cache images."""

    def cache_image(self, image: ImageData) -> CacheResult:
        """Download an image before a guest needs it, and return the result."""

    def cached_images(self) -> tuple[CachedImage, ...]:
        """Return the cached images of the host, with the guests that use them. Raises: DriverError."""


#: Ability → the protocol that a driver must implement for it.
PROTOCOLS: Mapping[Ability, type] = {
    Ability.ADMIN_PASSWORD: CanSetAdminPassword,
    Ability.ATTACH_INTERFACE: CanAttachInterfaces,
    Ability.COLD_MIGRATE: CanMoveCold,
    Ability.CONSOLE_OUTPUT: CanReadConsoles,
    Ability.CONSOLES: CanOpenConsoles,
    Ability.CRASH_DUMP: CanCrashDump,
    Ability.DIAGNOSTICS: CanDiagnose,
    Ability.IMAGE_CACHE: CanCacheImages,
    Ability.LIVE_MIGRATE: CanMigrateLive,
    Ability.PAUSE: CanPause,
    Ability.REBOOT: CanReboot,
    Ability.REBUILD: CanRebuild,
    Ability.RESCUE: CanRescue,
    Ability.RESIZE_SAME_HOST: CanMoveCold,
    Ability.SNAPSHOT: CanSnapshot,
    Ability.SUSPEND: CanSuspend,
}


def _methods(can: type) -> tuple[str, ...]:
    """Return the method names of a protocol, including inherited ones."""
    return tuple(name for name, _ in inspect.getmembers(can, inspect.isfunction) if not name.startswith("_"))


_METHODS: Mapping[Ability, tuple[str, ...]] = {ability: _methods(can) for ability, can in PROTOCOLS.items()}


def abilities_of(driver: VirtDriver) -> frozenset[Ability]:
    """Return the optional abilities of a driver.

    A driver may implement the methods of an ability that it does not have, for example because its hypervisor or its
    configuration does not allow it. The driver then has an attribute or property ``lacks``: the frozenset of these
    abilities.
    """
    lacks: frozenset[Ability] = getattr(driver, "lacks", frozenset())
    return _shared(
        frozenset(ability for ability, names in _METHODS.items() if all(hasattr(driver, name) for name in names))
        - lacks
    )


@cache
def _shared(abilities: frozenset[Ability]) -> frozenset[Ability]:
    """Return one shared object for equal sets of abilities, since a process may have thousands of simulated hosts."""
    return abilities


def missing_methods(driver: VirtDriver) -> tuple[str, ...]:
    """Return the missing methods of protocols that a driver implements only in part, most likely by mistake."""
    missing: dict[str, None] = {}
    for ability, can in PROTOCOLS.items():
        if any(hasattr(driver, name) for name in vars(can) if name in _METHODS[ability]):
            missing |= dict.fromkeys(name for name in _METHODS[ability] if not hasattr(driver, name))
    return tuple(missing)
