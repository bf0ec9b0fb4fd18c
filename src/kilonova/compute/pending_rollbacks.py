# SPDX-License-Identifier: Apache-2.0
"""Restoration of guests whose moves were rolled back while this host was down (pending rollbacks)."""

import logging

from kilonova.compute.able_driver import AbleDriver
from kilonova.compute.kept_guests import abandon_move, return_home
from kilonova.compute.virt.base import AgentStopsError
from kilonova.errors import DriverError
from kilonova.messaging.messages import PendingRollback, StepReply

LOG = logging.getLogger(__name__)
#: Error text for users if a driver raises an unexpected exception.
DRIVER_FAILED = "The hypervisor driver failed."


def roll_back(host: str, able: AbleDriver, due: PendingRollback) -> StepReply:
    """Restore a guest to its state before a move, and return the reply to the control process.

    An error of the driver is returned in the reply, so that other guests and hosts are not affected; the restoration
    is retried when the agent starts again. Raises: AgentStopsError.
    """
    uuid = due.guest.uuid
    try:
        if due.drops_made:
            abandon_move(able, uuid)
        state = return_home(able, due.guest, power_on=due.power_on)
    except DriverError as error:
        LOG.warning("Host %s: guest %s could not be restored after a rolled-back move: %s", host, uuid, error.message)
        return StepReply(due.step, host, uuid, error.message)
    except AgentStopsError:
        raise
    except Exception as error:
        LOG.exception("Host %s: guest %s could not be restored after a rolled-back move", host, uuid)
        return StepReply(due.step, host, uuid, DRIVER_FAILED, f"{type(error).__name__}: {error}")
    LOG.warning("Host %s: guest %s has been restored after a rolled-back move", host, uuid)
    return StepReply(due.step, host, uuid, power_state=state)
