# SPDX-License-Identifier: Apache-2.0
"""Orders to the two hosts of a cold move: resize, cold migration and evacuation.

A kept guest is the guest that the source of a move keeps until the move is confirmed or reverted. If a resize has the
same host as source and destination, that host has two guests of the instance: the kept guest and the new guest.
"""

from kilonova.messaging.messages.steps import StepId
from kilonova.model.instance import GuestSpec
from kilonova.records import dataclass


@dataclass(frozen=True, slots=True)
class MoveAway:
    """To the source: power off the guest and keep it until the move is confirmed or reverted.

    ``destination``: host that will copy the disk; "" in an evacuation, which creates a new guest without a copy.
    ``timeout_s``: the shutdown timeout; None is the default of the host.
    """

    step: StepId
    instance_uuid: str
    destination: str
    timeout_s: float | None = None


@dataclass(frozen=True, slots=True)
class FinishMove:
    """To the destination: create ``guest`` from a copy of the kept guest on ``source``; start it if ``power_on``."""

    step: StepId
    guest: GuestSpec
    source: str
    power_on: bool

    @property
    def instance_uuid(self) -> str:
        return self.guest.uuid


@dataclass(frozen=True, slots=True)
class ReturnHome:
    """To the source: turn the kept guest into the active guest again; no error if the guest is already active.

    Undo step of ``MoveAway`` and ``LiveMigrate``, and the last step of a revert.
    """

    step: StepId
    guest: GuestSpec
    power_on: bool

    @property
    def instance_uuid(self) -> str:
        return self.guest.uuid


@dataclass(frozen=True, slots=True)
class PendingRollback:
    """A rollback that a host must do before it accepts orders; part of the answer to its registration.

    The host restores the guest to its state before a move, as with ``ReturnHome``. ``drops_made``: the host first
    removes the guest that the move created on this same host, as with ``AbandonMove``. The host reports the result as
    the reply to ``step``.
    """

    step: StepId
    guest: GuestSpec
    power_on: bool
    drops_made: bool = False


@dataclass(frozen=True, slots=True)
class ConfirmMove:
    """To the source: remove the kept guest, but not an active guest. No error if there is no kept guest."""

    step: StepId
    instance_uuid: str


@dataclass(frozen=True, slots=True)
class AbandonMove:
    """To the destination: remove the guest that a move created there, but not a kept guest. No error if absent."""

    step: StepId
    instance_uuid: str


ColdMoveOrder = MoveAway | FinishMove | ReturnHome | ConfirmMove | AbandonMove
