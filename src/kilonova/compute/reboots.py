# SPDX-License-Identifier: Apache-2.0
"""How an agent reboots a guest, and which tasks its server shows meanwhile."""

import contextlib
from collections.abc import Callable

from kilonova.compute.able_driver import AbleDriver
from kilonova.compute.kept_guests import return_home
from kilonova.compute.shutdowns import Shutdowns
from kilonova.compute.virt.abilities import CanReboot
from kilonova.errors import GuestMissing
from kilonova.messaging.messages import RebootGuest
from kilonova.model.instance import PowerState, TaskState


def waiting(order: RebootGuest) -> TaskState:
    """Return the task while a reboot waits for its turn."""
    return TaskState.REBOOT_PENDING_HARD if order.hard else TaskState.REBOOT_PENDING


def reboot(
    order: RebootGuest, able: AbleDriver, shutdowns: Shutdowns, begins: Callable[[TaskState], None]
) -> PowerState:
    """Reboot a guest, unless that is done or comes too late, and return its state then; NOSTATE where there is none.

    One that is only kept is none, until it is described: then it is taken back.

    ``begins``: told the task of the server when the driver is about to begin. Raises: DriverError, AgentStopsError.
    """
    uuid, reboots = order.instance_uuid, able.need(CanReboot)
    state = able.driver.list_guests().get(uuid, PowerState.NOSTATE)
    if order.begun and state is PowerState.RUNNING:
        return state
    if order.hard:
        if state is PowerState.NOSTATE and order.guest is None:
            return state
        begins(TaskState.REBOOT_STARTED_HARD)
        try:
            reboots.hard_reboot(uuid, order.guest if state is PowerState.NOSTATE else None)
        except GuestMissing:
            if order.guest is None:
                return PowerState.NOSTATE
            with contextlib.suppress(GuestMissing):  # it is only kept, for a move that was not undone here
                return_home(able, order.guest, power_on=False)
            reboots.hard_reboot(uuid, order.guest)
        return PowerState.RUNNING
    if state is not PowerState.RUNNING:  # nothing is left to shut down in order: whoever asks orders a hard reboot
        return state
    begins(TaskState.REBOOT_STARTED)
    with shutdowns.patience(uuid, shutdowns.times.reboot_s) as patience:
        reboots.soft_reboot(uuid, patience)
    return PowerState.RUNNING
