# SPDX-License-Identifier: Apache-2.0
"""Kept guests: original guests that a move's source host keeps, powered off, until the move is confirmed or reverted.

A driver that cannot move guests keeps none. If a server is evacuated from the host of such a driver, the guest is only
stopped, and a rollback of the evacuation starts the guest again.
"""

from kilonova.compute.able_driver import AbleDriver
from kilonova.compute.virt.abilities import CanEndMoves, CanMoveCold
from kilonova.compute.virt.base import ShutdownTimeout
from kilonova.errors import GuestMissing
from kilonova.model.instance import GuestSpec, PowerState


def keep(able: AbleDriver, uuid: str, timeout: ShutdownTimeout | None = None) -> None:
    """Power a guest off, as ``stop`` does, and keep it until its server is known to run on another host.

    Raises: DriverError, AgentStopsError.
    """
    moves = able.find(CanMoveCold)
    if moves is None:
        able.driver.stop(uuid, timeout)
    else:
        moves.move_away(uuid, "", timeout)


def return_home(able: AbleDriver, guest: GuestSpec, *, power_on: bool) -> PowerState:
    """Restore a guest as it was before a move, and return its power state. Raises: DriverError."""
    moves = able.find(CanEndMoves)
    if moves is not None:
        return moves.return_home(guest, power_on=power_on)
    if power_on:
        able.driver.start(guest.uuid)
    state = able.driver.list_guests().get(guest.uuid)
    if state is None:
        raise GuestMissing(guest.uuid)
    return state


def confirm_move(able: AbleDriver, uuid: str) -> None:
    """Remove the guest that this host keeps as the source of a move; no error if absent. Raises: DriverError."""
    moves = able.find(CanEndMoves)
    if moves is not None:
        moves.confirm_move(uuid)


def abandon_move(able: AbleDriver, uuid: str) -> None:
    """Remove the guest that a move created on this host; no error if absent. Raises: DriverError."""
    moves = able.find(CanEndMoves)
    if moves is not None:
        moves.abandon_move(uuid)
