# SPDX-License-Identifier: Apache-2.0
"""The plans that one control process applies: it claims active plans without a live owner, and advances each."""

import logging
import time
from collections.abc import Callable
from contextlib import suppress

from kilonova.conductor.operations.planned_moves import PlannedMoves
from kilonova.conductor.plans.applied_plan import MOST_REPLANS, AppliedPlan, PlanEnvironment, Planner
from kilonova.conductor.plans.rebalance_jobs import RebalanceJobs
from kilonova.db import plans
from kilonova.db.database import Database
from kilonova.db.plans import PlanLostError, PlanRow
from kilonova.errors import Unavailable
from kilonova.model.saved_plan import MoveState
from kilonova.periodic import PeriodicPart, PeriodicThread

LOG = logging.getLogger(__name__)
#: Interval in seconds of looks at the plans, while there are active ones and otherwise.
_BUSY_S, _IDLE_S = 0.25, 1.0
#: Longest pause in seconds after the rest of a plan was planned again, or could not be.
_LONGEST_PAUSE_S = 30.0
#: Number of such pauses in a row after which a plan is given up.
_MOST_PAUSES = 2 * MOST_REPLANS
_GIVEN_UP = "The plan could not be applied; the log of the control process tells why."


class StoppingError(Exception):
    """The control process stops, or its lease has expired."""


class PlanRunner(PeriodicPart):
    """Part of a control process that applies plans. ``owner``: id of the process. ``may_act``: whether it may act.

    ``ended``: called with the state of each move that has ended. ``may_begin``: whether moves may begin, which they may
    not while the cloud is read-only. ``jobs``: plans rebalancings again.
    """

    def __init__(
        self,
        database: Database,
        owner: str,
        moves: PlannedMoves,
        planner: Planner,
        may_act: Callable[[], bool],
        *,
        jobs: RebalanceJobs | None = None,
        ended: Callable[[MoveState], None] = lambda _state: None,
        may_begin: Callable[[], bool] = lambda: True,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._database = database
        self._owner = owner
        jobs = jobs or RebalanceJobs(database, owner)
        self._env = PlanEnvironment(database, owner, moves, planner, self._check, jobs, ended, may_begin)
        self._may_act = may_act
        self._clock = clock
        self._is_busy = False
        self._is_stopping = False
        #: Plan → how often in a row it was planned again or has failed to advance, and when it goes on.
        self._pauses: dict[str, tuple[int, float]] = {}
        self._thread = PeriodicThread(
            "plans",
            self.look,
            lambda: _BUSY_S if self._is_busy else _IDLE_S,
            description="Apply plans of moves: begin their waves, and confirm cold migrations.",
            complaint="Plans were not attended to",
            from_start=True,
        )
        super().__init__("plans", [self._thread])

    def stop(self) -> None:
        """Stop after the present move, and let other processes apply the plans."""
        self._is_stopping = True
        super().stop()
        if self._is_busy and self._may_act():
            with suppress(Unavailable):
                self._database.write_unless_away(lambda tx: plans.release(tx, self._owner))

    def look(self) -> int:
        """Claim plans that no live process applies, and advance the plans of this process; return their number."""
        if not self._may_act():
            self._is_busy = False
            return 0
        with self._database.read() as connection:
            free = plans.free(connection, self._database.clock.now())
            mine = plans.owned(connection, self._owner)
        if free:
            self._database.write_unless_away(lambda tx: plans.claim(tx, self._owner))
            with self._database.read() as connection:
                mine = plans.owned(connection, self._owner)
        self._is_busy = bool(mine)
        self._pauses = {plan.uuid: self._pauses[plan.uuid] for plan in mine if plan.uuid in self._pauses}
        for plan in mine:
            try:
                self._advance(plan)
            except StoppingError:
                break
        return len(mine)

    def _advance(self, plan: PlanRow) -> None:
        times, until = self._pauses.get(plan.uuid, (0, float("-inf")))
        if self._clock() < until:
            return
        try:
            if times > _MOST_PAUSES:
                AppliedPlan(self._env, plan).give_up(_GIVEN_UP)
                return
            again = AppliedPlan(self._env, plan).advance()
        except PlanLostError:
            return
        except (StoppingError, Unavailable):
            raise
        except Exception:
            LOG.exception("Plan %s could not be applied; it is tried again", plan.uuid)
            again = True
        if again:
            self._pauses[plan.uuid] = times + 1, self._clock() + min(_LONGEST_PAUSE_S, 0.5 * 2**times)
        else:
            self._pauses.pop(plan.uuid, None)

    def _check(self) -> None:
        if self._is_stopping or not self._may_act():
            raise StoppingError
