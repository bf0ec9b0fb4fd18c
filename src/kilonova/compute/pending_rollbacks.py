# SPDX-License-Identifier: Apache-2.0
"""Guests that a host takes back when it returns, since nobody could ask it to undo a move while it was away."""

import logging

from kilonova.compute.able_driver import AbleDriver
from kilonova.compute.kept_guests import abandon_move, return_home
from kilonova.compute.virt.base import AgentStopsError
from kilonova.errors import DriverError
from kilonova.messaging.messages import PendingRollback, StepReply

LOG = logging.getLogger(__name__)
#: What users are told where a driver failed with anything but an error of its own.
DRIVER_FAILED = "The hypervisor driver failed."


def roll_back(host: str, able: AbleDriver, due: PendingRollback) -> StepReply:
    """Make a guest what it was before a move, and return what to say of it. What fails is tried at the next start.

    Whatever a driver raises of one guest keeps no other guest and no other host from starting.
    Raises: AgentStopsError.
    """
    uuid = due.guest.uuid
    try:
        if due.drops_made:
            abandon_move(able, uuid)
        state = return_home(able, due.guest, power_on=due.power_on)
    except DriverError as error:
        LOG.warning("Host %s: guest %s could not be taken back from a move: %s", host, uuid, error.message)
        return StepReply(due.step, host, uuid, error.message)
    except AgentStopsError:
        raise
    except Exception as error:
        LOG.exception("Host %s: guest %s could not be taken back from a move", host, uuid)
        return StepReply(due.step, host, uuid, DRIVER_FAILED, f"{type(error).__name__}: {error}")
    LOG.warning("Host %s: guest %s is taken back from a move that came to nothing meanwhile", host, uuid)
    return StepReply(due.step, host, uuid, power_state=state)
