# SPDX-License-Identifier: Apache-2.0
"""Orders to the two hosts of a cold move: resize, cold migration and evacuation.

For each instance a host has a guest, or a kept guest (the source of an unconfirmed move), or both: a resize may have
the same host as source and destination.
"""

from dataclasses import dataclass

from kilonova.messaging.messages.steps import StepId
from kilonova.model.instance import GuestSpec


@dataclass(frozen=True, slots=True)
class MoveAway:
    """To the source: power the guest off and keep it, for ``destination`` to copy and for a revert.

    ``destination``: "" in an evacuation, which builds a new guest on the other host.
    ``timeout_s``: the shutdown timeout; None is the default of the host.
    """

    step: StepId
    instance_uuid: str
    destination: str
    timeout_s: float | None = None


@dataclass(frozen=True, slots=True)
class FinishMove:
    """To the destination: create the guest from the one that ``source`` keeps, resized; start it if ``power_on``."""

    step: StepId
    guest: GuestSpec
    source: str
    power_on: bool

    @property
    def instance_uuid(self) -> str:
        return self.guest.uuid


@dataclass(frozen=True, slots=True)
class ReturnHome:
    """To the source: turn the kept guest into the active guest again; no error if the guest never left.

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

    The host restores the guest to its state before a move, as with ``ReturnHome``. With ``drops_made`` it first removes
    the guest that the move created on the same host, as with ``AbandonMove``. It reports the result by ``step``.
    """

    step: StepId
    guest: GuestSpec
    power_on: bool
    drops_made: bool = False


@dataclass(frozen=True, slots=True)
class ConfirmMove:
    """To the source: remove the kept guest, and no other. No error if absent."""

    step: StepId
    instance_uuid: str


@dataclass(frozen=True, slots=True)
class AbandonMove:
    """To the destination: remove the guest that a move created there, but no kept guest. No error if absent."""

    step: StepId
    instance_uuid: str


ColdMoveOrder = MoveAway | FinishMove | ReturnHome | ConfirmMove | AbandonMove
