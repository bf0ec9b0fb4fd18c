# SPDX-License-Identifier: Apache-2.0
"""What each order means for the hypervisor driver."""

from collections.abc import Callable

from kilonova.compute.live_migrations import LiveMigrations
from kilonova.compute.reboots import reboot
from kilonova.compute.removals import GuestRemover
from kilonova.compute.shutdowns import Shutdowns
from kilonova.compute.snapshots import Snapshots
from kilonova.compute.virt.base import Rescue, VirtDriver
from kilonova.messaging.messages import (
    AbandonMove,
    ActivateMigrated,
    CacheImages,
    CallOff,
    ConfirmMove,
    DestroyGuest,
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
from kilonova.model.instance import PowerState, TaskState


def carry_out(
    order: Order,
    driver: VirtDriver,
    migrations: LiveMigrations,
    remover: GuestRemover,
    shutdowns: Shutdowns,
    snapshots: Snapshots,
    begins: Callable[[TaskState], None],
) -> PowerState:
    """Have the driver do what is ordered and return the guest's state then.

    ``begins``: told when the server shows another task from now on. Raises: DriverError, AgentStopsError.
    """
    match order:
        case SpawnGuest():
            driver.spawn(order.guest)
            return PowerState.RUNNING
        case RebuildGuest():
            driver.rebuild(order.guest, power_on=order.power_on)
            return PowerState.RUNNING if order.power_on else PowerState.SHUTDOWN
        case DestroyGuest():
            driver.destroy(order.instance_uuid)
            return PowerState.NOSTATE
        case StartGuest():
            driver.start(order.instance_uuid)
            return PowerState.RUNNING
        case StopGuest():
            with shutdowns.patience_of(order) as patience:
                driver.stop(order.instance_uuid, patience)
            return PowerState.SHUTDOWN
        case RebootGuest():
            return reboot(order, driver, shutdowns, begins)
        case PauseGuest():
            driver.pause(order.instance_uuid)
            return PowerState.PAUSED
        case UnpauseGuest():
            driver.unpause(order.instance_uuid)
            return PowerState.RUNNING
        case SuspendGuest():
            driver.suspend(order.instance_uuid)
            return PowerState.SUSPENDED
        case ResumeGuest():
            driver.resume(order.instance_uuid)
            return PowerState.RUNNING
        case RescueGuest():
            with shutdowns.patience_of(order) as patience:
                rescue = Rescue(order.image_ref, order.image, order.image_properties, order.admin_password)
                driver.rescue(order.guest, rescue, patience)
            return PowerState.RUNNING
        case UnrescueGuest():
            driver.unrescue(order.instance_uuid)
            return PowerState.RUNNING
        case SetAdminPassword():
            driver.set_admin_password(order.instance_uuid, order.admin_password)
            return _state(driver, order.instance_uuid)
        case TriggerCrashDump():
            driver.crash_dump(order.instance_uuid)
            return _state(driver, order.instance_uuid)
        case MoveAway():
            with shutdowns.patience_of(order) as patience:
                driver.move_away(order.instance_uuid, order.destination, patience)
            return PowerState.SHUTDOWN
        case FinishMove():
            driver.finish_move(order.guest, order.source, power_on=order.power_on)
            return PowerState.RUNNING if order.power_on else PowerState.SHUTDOWN
        case ReturnHome():
            driver.discard_snapshot(order.instance_uuid)  # which an evacuation may have interrupted
            return driver.return_home(order.guest, power_on=order.power_on)
        case ConfirmMove():
            driver.confirm_move(order.instance_uuid)
            return _state(driver, order.instance_uuid)
        case AbandonMove():
            driver.abandon_move(order.instance_uuid)
            return _state(driver, order.instance_uuid)
        case PrepareLiveMigration():
            driver.prepare_live_migration(order.guest, order.source)
            return PowerState.PAUSED
        case LiveMigrate():
            with migrations.run(order) as monitor:
                return driver.live_migrate(order.instance_uuid, order.destination, monitor)
        case ActivateMigrated():
            driver.activate_migrated(order.instance_uuid, paused=order.paused)
            return PowerState.PAUSED if order.paused else PowerState.RUNNING
        case RemoveGuest():
            return remover.remove(order.removal)
        case SnapshotGuest():
            with snapshots.run(order) as monitor:
                driver.snapshot(order.instance_uuid, order.image_id, order.base, monitor)
        case UploadSnapshot():
            with snapshots.run(order) as monitor:
                driver.upload_snapshot(order.instance_uuid, order.image, monitor)
        case CacheImages():
            return PowerState.NOSTATE  # what it is about has none
        case CallOff():
            pass  # that it came is what matters
        case DiscardSnapshot():
            driver.discard_snapshot(order.instance_uuid)
    return _state(driver, order.instance_uuid)


def _state(driver: VirtDriver, uuid: str) -> PowerState:
    return driver.list_guests().get(uuid, PowerState.NOSTATE)
