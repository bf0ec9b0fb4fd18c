# SPDX-License-Identifier: Apache-2.0
"""Reboots of guests, and the task states that their servers show meanwhile."""

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
    """Return the task state of a reboot that is still queued."""
    return TaskState.REBOOT_PENDING_HARD if order.hard else TaskState.REBOOT_PENDING


def reboot(
    order: RebootGuest, able: AbleDriver, shutdowns: Shutdowns, begins: Callable[[TaskState], None]
) -> PowerState:
    """Reboot a guest and return its power state, or NOSTATE if the guest is absent.

    An order that is sent again does nothing if the guest is running again. A soft reboot does nothing if the guest is
    not running. A guest that the host only keeps for a move counts as absent, but a hard reboot whose order contains a
    description of the guest restores the kept guest first.
    ``begins``: called with the new task state of the server before the driver reboots the guest.
    Raises: DriverError, AgentStopsError.
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
            with contextlib.suppress(GuestMissing):  # restore a guest that this host only keeps for a move
                return_home(able, order.guest, power_on=False)
            reboots.hard_reboot(uuid, order.guest)
        return PowerState.RUNNING
    if state is not PowerState.RUNNING:  # the guest cannot shut down; the control process orders a hard reboot
        return state
    begins(TaskState.REBOOT_STARTED)
    with shutdowns.timeout(uuid, shutdowns.times.reboot_s) as timeout:
        reboots.soft_reboot(uuid, timeout)
    return PowerState.RUNNING
