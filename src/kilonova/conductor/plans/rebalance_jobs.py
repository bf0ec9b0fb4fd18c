# SPDX-License-Identifier: Apache-2.0
"""Jobs that plan the rest of a rebalancing again: that may take minutes, so the control process does not compute it."""

from collections.abc import Sequence
from datetime import timedelta
from functools import partial
from typing import Any

from kilonova.claims.stored_plans import NewRest, rest_of_result
from kilonova.db import jobs, plans
from kilonova.db.core.transaction import Transaction
from kilonova.db.database import Database
from kilonova.db.jobs import NewJob
from kilonova.db.plan_moves import PlanMove
from kilonova.db.plans import PlanRow
from kilonova.errors import NotFound
from kilonova.identifiers import new_uuid
from kilonova.model.job import JobState
from kilonova.model.saved_plan import MoveState
from kilonova.records import dataclass

#: Time after which a plan no longer waits for a job that no control process has begun.
_PATIENCE = timedelta(minutes=2)
_KIND = "rebalance"


class NoJobError(Exception):
    """The rest of a plan cannot be planned by a job."""


@dataclass(frozen=True, slots=True)
class RebalanceJobs:
    """Jobs for the plans of one control process. ``most``, ``most_of_project``: limits of unfinished jobs."""

    database: Database
    owner: str
    most: int = 100
    most_of_project: int = 20

    def begin(self, plan: PlanRow, ended: Sequence[PlanMove], message: str) -> None:
        """Queue a job that plans the rest of a plan, within what is left of the bounds of the plan.

        ``ended``: the moves of the plan that have ended. ``message``: why the rest is planned again.
        Raises: PlanLostError; NoJobError if nothing is left of the bounds; QueueFull.
        """
        done = [move for move in ended if move.state is MoveState.DONE]
        asked = _rest_of(plan.request, len(done), sum(move.gib for move in done))
        job = NewJob(
            uuid=new_uuid(),
            kind=_KIND,
            project_id=plan.project_id,
            user_id=plan.user_id,
            request_id=plan.request_id,
            parameters={name: value for name, value in asked.items() if name != "aggregate_id"},
            prepared=asked,
        )
        self.database.write(partial(self._begin, plan=plan, job=job, message=message))

    def _begin(self, tx: Transaction, plan: PlanRow, job: NewJob, message: str) -> None:
        plans.await_job(tx, plan.uuid, self.owner, job.uuid, message)
        jobs.add(tx, job, most=self.most, most_of_project=self.most_of_project)

    def result(self, uuid: str, first_wave: int) -> NewRest | None:
        """Return what a job has planned; None while it has not ended.

        ``first_wave``: number of the first new wave. Raises: NoJobError if the job has no result.
        """
        with self.database.read() as connection:
            try:
                job, packed = jobs.get(connection, uuid), jobs.result_of(connection, uuid)
            except NotFound as error:
                raise NoJobError(error.message) from error
        if job.state is JobState.QUEUED and job.created_at < self.database.clock.now() - _PATIENCE:
            self.database.write(lambda tx: jobs.cancel_or_remove(tx, uuid))
            raise NoJobError(f"Job {uuid} has not begun.")
        if not job.state.is_final:
            return None
        if packed is None:
            raise NoJobError(job.failure or f"Job {uuid} was cancelled.")
        return rest_of_result(packed, first_wave)


def _rest_of(request: Any, moves: int, gib: float) -> dict[str, Any]:
    """Return the request of a rebalancing, with its bounds less what was moved already. Raises: NoJobError."""
    bounds = {"moves": moves, "gib": gib}
    left = {name: request[name] - used for name, used in bounds.items() if request.get(name) is not None}
    if any(value <= 0 for value in left.values()):
        raise NoJobError("The plan has made all moves that its bounds allow.")
    return {**request, **left}
