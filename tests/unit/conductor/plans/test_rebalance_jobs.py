# SPDX-License-Identifier: Apache-2.0
"""Jobs that plan the rest of a rebalancing: their bounds, their results, and jobs that never begin."""

import zlib
from datetime import timedelta
from functools import partial
from typing import Any

import orjson
import pytest
import sqlalchemy as sa

from kilonova.conductor.plans.rebalance_jobs import NoJobError, RebalanceJobs
from kilonova.db import jobs, plan_moves, plans
from kilonova.db.core import tables as t
from kilonova.db.database import Database
from kilonova.db.jobs import JobRow, QueueFull
from kilonova.db.plan_moves import NewMove, PlanMove
from kilonova.db.plans import NewPlan, PlanRow
from kilonova.identifiers import new_uuid
from kilonova.model.job import JobState
from kilonova.model.saved_plan import MoveState, PlanKind, PlanState
from kilonova.model.server_migration import MoveKind

RESULT = {
    "seq": 12,
    "moves": [{"server": "s", "name": "vm", "from": "a", "to": "b", "wave": 1, "live": True, "gib": 0.5}],
    "stays": [{"server": "x", "name": "", "host": "a", "reason": "locked", "rules": [], "nearest_miss": []}],
}


def move(name: str, gib: float) -> NewMove:
    return NewMove(
        wave=0,
        server_uuid=name,
        server_name=name,
        kind=MoveKind.LIVE_MIGRATE,
        source_host="a",
        dest_host="b",
        gib=gib,
    )


def running(database: Database, **request: Any) -> tuple[PlanRow, list[PlanMove]]:
    """Save and begin a plan with one move that is done and one that has failed; return it with these moves."""
    uuid = new_uuid()
    new = NewPlan(
        uuid=uuid,
        kind=PlanKind.REBALANCE,
        project_id="p",
        user_id="u",
        request_id="r",
        request={"objective": "spread", "aggregate_id": 3, **request},
        stays=[],
        seq=1,
    )
    database.write(lambda tx: plans.add(tx, new, [move("done", 4.0), move("failed", 8.0)]))
    database.write(lambda tx: plans.change_state(tx, uuid, PlanState.RUNNING))
    database.write(lambda tx: plans.claim(tx, "me"))
    with database.read() as connection:
        moves = plan_moves.of_plan(connection, uuid)
    for each, state in zip(moves, (MoveState.DONE, MoveState.FAILED), strict=True):
        database.write(partial(plan_moves.end, move=each, state=state))
    with database.read() as connection:
        return plans.get(connection, uuid), plan_moves.of_plan(connection, uuid)


def job_of(database: Database, plan: PlanRow) -> JobRow:
    with database.read() as connection:
        return jobs.get(connection, plans.get(connection, plan.uuid).job_uuid or "")


def test_the_bounds_of_the_job_are_what_is_left(sqlite: Database) -> None:
    plan, moves = running(sqlite, moves=5, gib=10.0, how="live")
    RebalanceJobs(sqlite, "me").begin(plan, moves, "because")
    job = job_of(sqlite, plan)
    assert job.parameters == {"objective": "spread", "moves": 4, "gib": 6.0, "how": "live"}
    with sqlite.read() as connection:
        assert jobs.prepared_of(connection, job.uuid) == {**job.parameters, "aggregate_id": 3}
        assert plans.get(connection, plan.uuid).message == "because"


def test_nothing_is_planned_beyond_the_bounds(sqlite: Database) -> None:
    plan, moves = running(sqlite, moves=1)
    with pytest.raises(NoJobError):
        RebalanceJobs(sqlite, "me").begin(plan, moves, "because")


def test_a_full_queue_leaves_the_plan_as_it_was(sqlite: Database) -> None:
    plan, moves = running(sqlite)
    with pytest.raises(QueueFull):
        RebalanceJobs(sqlite, "me", most=0).begin(plan, moves, "because")
    with sqlite.read() as connection:
        assert plans.get(connection, plan.uuid).job_uuid is None


def test_the_result_of_the_job_is_the_new_rest(sqlite: Database) -> None:
    plan, moves = running(sqlite)
    asked = RebalanceJobs(sqlite, "me")
    asked.begin(plan, moves, "because")
    job = job_of(sqlite, plan).uuid
    assert asked.result(job, 7) is None
    (claimed,) = sqlite.write(lambda tx: jobs.claim(tx, "me", 1))
    sqlite.write(lambda tx: jobs.finish(tx, "me", claimed, zlib.compress(orjson.dumps(RESULT))))
    found = asked.result(job, 7)
    assert found is not None
    (new,) = found.moves
    assert (new.wave, new.kind, new.dest_host, found.seq) == (8, MoveKind.LIVE_MIGRATE, "b", 12)
    assert found.stays == [{"server": "x", "name": "", "host": "a", "reason": "locked"}]


def test_a_job_without_a_result_is_no_job(sqlite: Database) -> None:
    plan, moves = running(sqlite)
    asked = RebalanceJobs(sqlite, "me")
    asked.begin(plan, moves, "because")
    job = job_of(sqlite, plan).uuid
    long_ago = sqlite.clock.now() - timedelta(minutes=5)
    sqlite.write(lambda tx: tx.execute(sa.update(t.jobs).values(created_at=long_ago)))
    with pytest.raises(NoJobError, match="has not begun"):
        asked.result(job, 0)
    assert job_of(sqlite, plan).state is JobState.CANCELLED
    with pytest.raises(NoJobError, match="cancelled"):
        asked.result(job, 0)
    with pytest.raises(NoJobError, match="could not be found"):
        asked.result(new_uuid(), 0)
