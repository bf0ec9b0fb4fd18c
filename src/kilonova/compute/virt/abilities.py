# SPDX-License-Identifier: Apache-2.0
"""What a hypervisor driver may do beside :class:`~kilonova.compute.virt.base.VirtDriver`: a protocol for each ability.

A driver has an ability if it has all methods of its protocol; nothing has to be registered, and one that lacks an
ability has no such method. The agent finds out once, when it starts, and refuses what the driver lacks.

A host that moves guests has for each instance a *guest*, or one that is *kept* for a move that may still be reverted,
or both: source and destination of a resize may be the same host. Starting, stopping and rebooting concern the guest. At
the destination of a live migration the guest is *incoming*, and paused, until it is activated.

Attaching volumes and network interfaces will be further protocols here.
"""

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Protocol

from kilonova.compute.virt.base import ShutdownPatience, VirtDriver
from kilonova.model.ability import Ability
from kilonova.model.cached_image import CachedImage
from kilonova.model.console import ConsoleEnd, ConsoleProtocol
from kilonova.model.guest_diagnostics import GuestDiagnostics
from kilonova.model.image_data import CacheResult, ImageData
from kilonova.model.instance import GuestSpec, PowerState


class CanReboot(Protocol):
    """Ability.REBOOT: it reboots guests."""

    def soft_reboot(self, uuid: str, patience: ShutdownPatience) -> None:
        """Shut a running guest down, as in :meth:`stop`, and start it. Raises: DriverError, AgentStopsError."""

    def hard_reboot(self, uuid: str, guest: GuestSpec | None) -> None:
        """Power a guest off, whatever it does, and start it. One that is gone is made anew as ``guest`` describes it.

        Raises: GuestMissing, where it is gone, or only kept, and not described; DriverError.
        """


class CanPause(Protocol):
    """Ability.PAUSE: it has guests stand still."""

    def pause(self, uuid: str) -> None:
        """Have a guest that runs stand still; one that is paused is success. Raises: DriverError."""

    def unpause(self, uuid: str) -> None:
        """Let a paused guest go on; one that runs is success. Raises: DriverError."""


class CanSuspend(Protocol):
    """Ability.SUSPEND: it saves guests to disk."""

    def suspend(self, uuid: str) -> None:
        """Write the memory of a guest that runs to disk and power it off; one that is suspended is success.

        Raises: DriverError.
        """

    def resume(self, uuid: str) -> None:
        """Let a suspended guest go on with its memory; one that runs is success. Raises: DriverError."""


class CanRebuild(Protocol):
    """Ability.REBUILD: it makes guests anew in their place."""

    def rebuild(self, guest: GuestSpec, *, power_on: bool) -> None:
        """Make a guest as described in place of the one that is there, kept ones included; there may be none.

        One that bears the same ``ordered_at`` was made by this order already: it only gets its power state. The image
        is fetched before anything is removed. Raises: DriverError, leaving the guest as it was, or none;
        UnsupportedGuest.
        """


@dataclass(frozen=True, slots=True)
class Rescue:
    """What a guest is rescued with. ``image``: how the host gets the image ``image_ref``; None: it has no way to it.

    ``image_properties``: of RESCUE_PROPERTIES, those that the image has. With one, the guest's own disks keep their
    names, and the rescue disk comes behind them.
    ``admin_password``: for whoever logs in to it; the config drive of the guest says it, too.
    """

    image_ref: str
    image: ImageData | None
    image_properties: Mapping[str, str] = field(default_factory=dict)
    admin_password: str = ""


class CanRescue(Protocol):
    """Ability.RESCUE: it starts guests from another image."""

    def rescue(self, guest: GuestSpec, rescue: Rescue, patience: ShutdownPatience | None = None) -> None:
        """Start a guest from an image, with its own disk beside it; one that is rescued with it is success.

        ``patience``: see :meth:`stop`. As long as the rescue lasts the guest has the config drive of ``guest`` instead
        of its own, and it is gone with the rescue.
        A start or a hard reboot takes its own disk again. Raises: DriverError, AgentStopsError; then it is as it was,
        or off.
        """

    def unrescue(self, uuid: str) -> None:
        """Start a guest from its own disk again; one that runs from it is success. Raises: DriverError."""


class CanSetAdminPassword(Protocol):
    """Ability.ADMIN_PASSWORD: it reaches into guests to set a password."""

    def set_admin_password(self, uuid: str, admin_password: str) -> None:
        """Set the password inside a guest that runs. Raises: Unsupported, where nothing in it can; DriverError."""


class CanCrashDump(Protocol):
    """Ability.CRASH_DUMP: it interrupts guests."""

    def crash_dump(self, uuid: str) -> None:
        """Have a guest that runs write a crash dump, by a non-maskable interrupt. Raises: DriverError."""


#: So much of the end of a console is kept and told.
CONSOLE_BYTES = 100 * 1024


class CanReadConsoles(Protocol):
    """Ability.CONSOLE_OUTPUT: it keeps what guests write to their consoles."""

    def console_output(self, uuid: str, lines: int | None) -> str:
        """Return what a guest has written to its console last, at most ``CONSOLE_BYTES``.

        ``lines``: the last so many; None stands for all that is there.
        Raises: GuestMissing, DriverError.
        """


class CanOpenConsoles(Protocol):
    """Ability.CONSOLES: consoles of its guests can be connected to."""

    def console_end(self, uuid: str, protocol: ConsoleProtocol) -> ConsoleEnd:
        """Return where the console of a guest that runs is reached, which it is as long as the guest runs here.

        Raises: GuestMissing, GuestNotRunning; Unsupported, where it has no console of that protocol; DriverError.
        """


class CanDiagnose(Protocol):
    """Ability.DIAGNOSTICS: it counts what guests use."""

    def diagnostics(self, uuid: str) -> GuestDiagnostics:
        """Return how a guest that runs is doing.

        Raises: GuestMissing, GuestNotRunning, DriverError.
        """


class CanEndMoves(Protocol):
    """How a move of either kind ends."""

    def return_home(self, guest: GuestSpec, *, power_on: bool) -> PowerState:
        """Take the kept guest back as it was, and return its state; a guest that never left is success.

        ``power_on``: let it run, or be paused if it was. Raises: DriverError, also while a guest that the move made
        is still here.
        """

    def confirm_move(self, uuid: str) -> None:
        """Drop what is kept, and nothing else; absent is success. Raises: DriverError.

        What the move made on the same host is a guest as if no move had brought it.
        """

    def abandon_move(self, uuid: str) -> None:
        """Drop the guest that a move made or was about to make here, and nothing else; absent is success.

        A guest that no move brought here stays. Raises: DriverError.
        """


class CanMoveCold(CanEndMoves, Protocol):
    """Ability.RESIZE_SAME_HOST, Ability.COLD_MIGRATE: it moves guests that are off.

    A driver that resizes guests where they are and moves none between hosts lacks COLD_MIGRATE: :func:`abilities_of`.
    """

    def move_away(self, uuid: str, destination: str, patience: ShutdownPatience | None = None) -> None:
        """Power a guest off, as in :meth:`stop`, and keep it; one that is kept already is success.

        Raises: DriverError, AgentStopsError.
        """

    def finish_move(self, guest: GuestSpec, source: str, *, power_on: bool) -> None:
        """Make the guest that ``source`` keeps, with the size in ``guest``; one that a move made already is success.

        Raises: DriverError, leaving nothing behind; UnsupportedGuest.
        """


@dataclass(frozen=True, slots=True)
class CopyProgress:
    """How much of a guest has been copied. Units: bytes."""

    memory_total_bytes: int = 0
    memory_processed_bytes: int = 0
    memory_remaining_bytes: int = 0
    disk_total_bytes: int = 0
    disk_processed_bytes: int = 0
    disk_remaining_bytes: int = 0


class MigrationMonitor(Protocol):
    """What a driver asks and tells while it copies a running guest."""

    @property
    def abort_requested(self) -> bool:
        """Whether the migration is to be given up, as long as that is possible."""

    @property
    def completion_forced(self) -> bool:
        """Whether the migration is to end soon, at the price of a pause of the guest."""

    def report(self, progress: CopyProgress) -> None:
        """Tell how far the copying is, about every second."""

    def wait(self, seconds: float) -> None:
        """Wait so long, or until something is requested. Raises: AgentStopsError."""


class CanMigrateLive(CanEndMoves, Protocol):
    """Ability.LIVE_MIGRATE: it moves guests that run."""

    def prepare_live_migration(self, guest: GuestSpec, source: str) -> None:
        """Make an incoming guest, paused. Raises: DriverError, leaving nothing behind; UnsupportedGuest."""

    def live_migrate(self, uuid: str, destination: str, monitor: MigrationMonitor) -> PowerState:
        """Copy a guest to ``destination`` while it runs, then keep it. Returns what it was, running or paused.

        One that is kept already is success. Raises: MigrationAborted, DriverError; then the guest is as it was.
        """

    def activate_migrated(self, uuid: str, *, paused: bool) -> None:
        """Let an incoming guest run, or leave it ``paused``. One that is not incoming any more is success.

        Raises: DriverError.
        """


class SnapshotMonitor(Protocol):
    """What a driver asks while it copies or uploads a disk."""

    def check(self) -> None:
        """Raise SnapshotCancelled when it is to be given up, AgentStopsError when the agent ends; often."""


class CanSnapshot(Protocol):
    """Ability.SNAPSHOT: it makes images of disks."""

    def snapshot(self, uuid: str, image_id: str, base: ImageData | None, monitor: SnapshotMonitor) -> None:
        """Copy the disk of a guest as it is now, for an image; a copy for that image is success.

        ``base``: the image that the guest was made of, where it may have to be had again. The guest stays as it is.
        Raises: SnapshotCancelled, DriverError, leaving no copy.
        """

    def upload_snapshot(self, uuid: str, image: ImageData, monitor: SnapshotMonitor) -> None:
        """Bring the copy for an image there and drop it; brought already is success.

        Raises: SnapshotCancelled, DriverError; then the copy stays, for another try.
        """

    def discard_snapshot(self, uuid: str) -> None:
        """Drop the copy of a guest's disk; absent is success. Raises: DriverError."""


class CanCacheImages(Protocol):
    """Ability.IMAGE_CACHE: it keeps images."""

    def cache_image(self, image: ImageData) -> CacheResult:
        """Fetch an image before a guest wants it, and say what came of that."""

    def cached_images(self) -> tuple[CachedImage, ...]:
        """Return the images that the host keeps, with its guests that need them. Raises: DriverError."""


#: Ability → what a driver must have for it.
PROTOCOLS: Mapping[Ability, type] = {
    Ability.ADMIN_PASSWORD: CanSetAdminPassword,
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
    """Return the methods of a protocol, also of those that it extends."""
    return tuple(name for name, _ in inspect.getmembers(can, inspect.isfunction) if not name.startswith("_"))


_METHODS: Mapping[Ability, tuple[str, ...]] = {ability: _methods(can) for ability, can in PROTOCOLS.items()}


def abilities_of(driver: VirtDriver) -> frozenset[Ability]:
    """Return what a driver can do beside what every driver can.

    A driver whose methods would say too much has an attribute or property ``lacks``, a frozenset of abilities that it
    does not have nevertheless: what it can do may depend on its hypervisor or configuration.
    """
    lacks: frozenset[Ability] = getattr(driver, "lacks", frozenset())
    return _shared(
        frozenset(ability for ability, names in _METHODS.items() if all(hasattr(driver, name) for name in names))
        - lacks
    )


@cache
def _shared(abilities: frozenset[Ability]) -> frozenset[Ability]:
    """Return the same object for the same abilities, since a process may have thousands of simulated hosts."""
    return abilities


def missing_methods(driver: VirtDriver) -> tuple[str, ...]:
    """Return what a driver lacks of abilities of which it has a part: most likely a slip of its author."""
    missing: dict[str, None] = {}
    for ability, can in PROTOCOLS.items():
        if any(hasattr(driver, name) for name in vars(can) if name in _METHODS[ability]):
            missing |= dict.fromkeys(name for name in _METHODS[ability] if not hasattr(driver, name))
    return tuple(missing)
