# SPDX-License-Identifier: Apache-2.0
"""Resize and migrate: orders to the two hosts of a move during which the guest is off.

A host has for each instance a guest, or one that it keeps for a move that nobody has confirmed yet, or both: source and
destination of a resize may be the same host.
"""

from dataclasses import dataclass

from kilonova.messaging.messages.steps import StepId
from kilonova.model.instance import GuestSpec


@dataclass(frozen=True, slots=True)
class MoveAway:
    """To the source: power the guest off and keep it, for ``destination`` to copy and for the way back.

    ``destination``: "" where the guest is made anew elsewhere, in an evacuation.
    ``timeout_s``: how long it may take to shut down, None: as long as its host says.
    """

    step: StepId
    instance_uuid: str
    destination: str
    timeout_s: float | None = None


@dataclass(frozen=True, slots=True)
class FinishMove:
    """To the destination: make the guest that ``source`` keeps, with its new size, and start it if ``power_on``."""

    step: StepId
    guest: GuestSpec
    source: str
    power_on: bool

    @property
    def instance_uuid(self) -> str:
        return self.guest.uuid


@dataclass(frozen=True, slots=True)
class ReturnHome:
    """To the source: take the kept guest back as it was; a guest that never left is success.

    Undoes ``MoveAway`` and ``LiveMigrate``, and is the last step of a revert.
    """

    step: StepId
    guest: GuestSpec
    power_on: bool

    @property
    def instance_uuid(self) -> str:
        return self.guest.uuid


@dataclass(frozen=True, slots=True)
class PendingRollback:
    """A part of the answer to a host that reports itself: what it has to undo of a move before it takes any order.

    The guest is to be what it was before, as ``ReturnHome`` makes it; with ``drops_made`` what the move made on the
    same host goes first, as by ``AbandonMove``. The host says with ``step`` what came of it.
    """

    step: StepId
    guest: GuestSpec
    power_on: bool
    drops_made: bool = False


@dataclass(frozen=True, slots=True)
class ConfirmMove:
    """To the source: drop what is kept, and nothing else. Absent is success."""

    step: StepId
    instance_uuid: str


@dataclass(frozen=True, slots=True)
class AbandonMove:
    """To the destination: drop the guest that a move made there, and nothing that is kept. Absent is success."""

    step: StepId
    instance_uuid: str


ColdMoveOrder = MoveAway | FinishMove | ReturnHome | ConfirmMove | AbandonMove
