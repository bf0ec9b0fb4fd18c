# SPDX-License-Identifier: Apache-2.0
"""Saved plans: kinds, and the states of plans and of their moves."""

from enum import StrEnum

from kilonova.model.server_migration import MoveKind

#: The kinds of moves in saved plans.
PLANNED_KINDS = (MoveKind.LIVE_MIGRATE, MoveKind.COLD_MIGRATE, MoveKind.EVACUATE)


class PlanKind(StrEnum):
    """What a plan is for. ``EVACUATE``: to rebuild the servers of hosts that are down on other hosts."""

    DRAIN = "drain"
    REBALANCE = "rebalance"
    EVACUATE = "evacuate"


class PlanState(StrEnum):
    """State of a saved plan.

    ``READY``: not applied yet. ``PAUSED``, ``CANCELLING``: no further move begins; moves that have begun end.
    ``DONE``: all that the plan could move was moved. ``FAILED``: moves have failed, or the plan was given up.
    """

    READY = "ready"
    RUNNING = "running"
    PAUSED = "paused"
    CANCELLING = "cancelling"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def is_active(self) -> bool:
        """Whether a control process attends to the plan."""
        return self in ACTIVE

    @property
    def is_final(self) -> bool:
        return self in FINAL


ACTIVE = frozenset({PlanState.RUNNING, PlanState.PAUSED, PlanState.CANCELLING})
FINAL = frozenset({PlanState.DONE, PlanState.FAILED, PlanState.CANCELLED})


class MoveState(StrEnum):
    """State of a move of a saved plan.

    ``SKIPPED``: the move was not begun, because the server had left its host or was deleted.
    ``CANCELLED``: the move was not begun, because the plan was cancelled or given up.
    """

    PLANNED = "planned"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    SKIPPED = "skipped"
    CANCELLED = "cancelled"
