# SPDX-License-Identifier: Apache-2.0
"""Dispatch of orders to the methods of the hypervisor driver."""

from collections.abc import Callable

from kilonova.compute import kept_guests
from kilonova.compute.able_driver import AbleDriver
from kilonova.compute.live_migrations import LiveMigrations
from kilonova.compute.reboots import reboot
from kilonova.compute.removals import GuestRemover
from kilonova.compute.shutdowns import Shutdowns
from kilonova.compute.snapshots import Snapshots
from kilonova.compute.virt.abilities import (
    CanAttachInterfaces,
    CanCrashDump,
    CanMigrateLive,
    CanPause,
    CanRebuild,
    CanRescue,
    CanSetAdminPassword,
    CanSnapshot,
    CanSuspend,
    Rescue,
)
from kilonova.compute.virt.base import VirtDriver
from kilonova.messaging.messages import (
    AbandonMove,
    ActivateMigrated,
    AttachInterface,
    CacheImages,
    CallOff,
    ConfirmMove,
    DestroyGuest,
    DetachInterface,
    DiscardSnapshot,
    FinishMove,
    LiveMigrate,
    MoveAway,
    Order,
    PauseGuest,
    PrepareLiveMigration,
    RebootGuest,
    RebuildGuest,
    RemoveGuest,
    RescueGuest,
    ResumeGuest,
    ReturnHome,
    SetAdminPassword,
    SnapshotGuest,
    SpawnGuest,
    StartGuest,
    StopGuest,
    SuspendGuest,
    TriggerCrashDump,
    UnpauseGuest,
    UnrescueGuest,
    UploadSnapshot,
)
from kilonova.model.instance import GuestSpec, PowerState, TaskState


def carry_out(
    order: Order,
    able: AbleDriver,
    migrations: LiveMigrations,
    remover: GuestRemover,
    shutdowns: Shutdowns,
    snapshots: Snapshots,
    begins: Callable[[TaskState], None],
) -> PowerState:
    """Carry out an order with the driver and return the resulting power state of the guest.

    ``begins``: called with the server's new task state when the order changes it.
    Raises: DriverError, including AbilityMissing if the driver lacks the ability; AgentStopsError.
    """
    driver = able.driver
    match order:
        case SpawnGuest():
            driver.spawn(order.guest)
            return _started(driver, order.guest)
        case RebuildGuest():
            able.need(CanRebuild).rebuild(order.guest, power_on=order.power_on)
            return _started(driver, order.guest) if order.power_on else PowerState.SHUTDOWN
        case DestroyGuest():
            driver.destroy(order.instance_uuid)
            return PowerState.NOSTATE
        case StartGuest():
            driver.start(order.instance_uuid)
            return PowerState.RUNNING
        case StopGuest():
            with shutdowns.timeout_of(order) as timeout:
                driver.stop(order.instance_uuid, timeout)
            return PowerState.SHUTDOWN
        case RebootGuest():
            remover.note_restored(order.guest)
            return reboot(order, able, shutdowns, begins)
        case PauseGuest():
            able.need(CanPause).pause(order.instance_uuid)
            return PowerState.PAUSED
        case UnpauseGuest():
            able.need(CanPause).unpause(order.instance_uuid)
            return PowerState.RUNNING
        case SuspendGuest():
            able.need(CanSuspend).suspend(order.instance_uuid)
            return PowerState.SUSPENDED
        case ResumeGuest():
            able.need(CanSuspend).resume(order.instance_uuid)
            return PowerState.RUNNING
        case RescueGuest():
            rescues = able.need(CanRescue)
            with shutdowns.timeout_of(order) as timeout:
                rescue = Rescue(order.image_ref, order.image, order.image_properties, order.admin_password)
                rescues.rescue(order.guest, rescue, timeout)
            return PowerState.RUNNING
        case UnrescueGuest():
            able.need(CanRescue).unrescue(order.instance_uuid)
            return PowerState.RUNNING
        case SetAdminPassword():
            able.need(CanSetAdminPassword).set_admin_password(order.instance_uuid, order.admin_password)
            return _state(driver, order.instance_uuid)
        case TriggerCrashDump():
            able.need(CanCrashDump).crash_dump(order.instance_uuid)
            return _state(driver, order.instance_uuid)
        case AttachInterface():
            able.need(CanAttachInterfaces).attach_interface(order.instance_uuid, order.vif)
        case DetachInterface():
            able.need(CanAttachInterfaces).detach_interface(order.instance_uuid, order.vif)
        case MoveAway(destination=""):  # an evacuation: the driver needs no ability to keep the guest
            with shutdowns.timeout_of(order) as timeout:
                kept_guests.keep(able, order.instance_uuid, timeout)
            return PowerState.SHUTDOWN
        case MoveAway():
            moves = able.need_cold_moves(order.destination)
            with shutdowns.timeout_of(order) as timeout:
                moves.move_away(order.instance_uuid, order.destination, timeout)
            return PowerState.SHUTDOWN
        case FinishMove():
            able.need_cold_moves(order.source).finish_move(order.guest, order.source, power_on=order.power_on)
            return _started(driver, order.guest) if order.power_on else PowerState.SHUTDOWN
        case ReturnHome():
            remover.note_restored(order.guest)
            _discard_snapshot(able, order.instance_uuid)  # an interrupted snapshot may have left a copy of the disk
            return kept_guests.return_home(able, order.guest, power_on=order.power_on)
        case ConfirmMove():
            kept_guests.confirm_move(able, order.instance_uuid)
            return _state(driver, order.instance_uuid)
        case AbandonMove():
            kept_guests.abandon_move(able, order.instance_uuid)
            return _state(driver, order.instance_uuid)
        case PrepareLiveMigration():
            able.need(CanMigrateLive).prepare_live_migration(order.guest, order.source)
            return PowerState.PAUSED
        case LiveMigrate():
            migrates = able.need(CanMigrateLive)
            with migrations.run(order) as monitor:
                return migrates.live_migrate(order.instance_uuid, order.destination, monitor)
        case ActivateMigrated():
            able.need(CanMigrateLive).activate_migrated(order.instance_uuid, paused=order.paused)
            return PowerState.PAUSED if order.paused else PowerState.RUNNING
        case RemoveGuest():
            return remover.remove(order.removal)
        case SnapshotGuest():
            takes = able.need(CanSnapshot)
            with snapshots.run(order) as monitor:
                takes.snapshot(order.instance_uuid, order.image_id, order.base, monitor)
        case UploadSnapshot():
            takes = able.need(CanSnapshot)
            with snapshots.run(order) as monitor:
                takes.upload_snapshot(order.instance_uuid, order.image, monitor)
        case CacheImages():
            return PowerState.NOSTATE  # the order concerns no guest
        case CallOff():
            pass  # the queued order of the workflow was cancelled when this message arrived
        case DiscardSnapshot():
            _discard_snapshot(able, order.instance_uuid)
    return _state(driver, order.instance_uuid)


def _discard_snapshot(able: AbleDriver, uuid: str) -> None:
    takes = able.find(CanSnapshot)
    if takes is not None:  # a driver that cannot take snapshots has none
        takes.discard_snapshot(uuid)


def _started(driver: VirtDriver, guest: GuestSpec) -> PowerState:
    """Return the power state of a guest that was started: running, or paused if the driver may start it paused."""
    return _state(driver, guest.uuid) if guest.starts_paused else PowerState.RUNNING


def _state(driver: VirtDriver, uuid: str) -> PowerState:
    return driver.list_guests().get(uuid, PowerState.NOSTATE)
