# SPDX-License-Identifier: Apache-2.0
"""Drains that a cell applies, on the thread of the test."""

from collections.abc import Callable
from itertools import count
from typing import Any

import sqlalchemy as sa

from kilonova.claims.cloud_snapshot import cloud_snapshot
from kilonova.claims.present_drain import drained
from kilonova.claims.rest_of_plan import PresentPlans
from kilonova.claims.stored_plans import drain_parameters, moves_of, stays_of
from kilonova.cli.wiring.rules import build_engine
from kilonova.conductor.plans.plan_runner import PlanRunner
from kilonova.db import plan_moves, plans
from kilonova.db.core import tables as t
from kilonova.db.plan_moves import PlanMove
from kilonova.db.plans import NewPlan, PlanRow
from kilonova.identifiers import new_uuid
from kilonova.model.saved_plan import PlanKind, PlanState
from kilonova.planning.drain import DrainRequest
from kilonova.scheduler.settings import SchedulerConfig
from support.cell import Cell

#: The rules of a cell.
_ENGINE = build_engine(SchedulerConfig())


def save_drain(cell: Cell, asked: DrainRequest) -> str:
    """Plan a drain and save it; return the uuid of the plan."""

    def snapshot(on_hosts: frozenset[str] | None) -> Any:
        return cloud_snapshot(cell.database, cell.mirror, _ENGINE, on_hosts=on_hosts)

    taken, plan = drained(snapshot, asked)
    new = NewPlan(
        uuid=new_uuid(),
        kind=PlanKind.DRAIN,
        project_id="wonder",
        user_id="alice",
        request_id="req-plan",
        request=drain_parameters(asked),
        stays=stays_of(taken.cloud, plan),
        seq=taken.seq,
    )
    cell.database.write(lambda tx: plans.add(tx, new, moves_of(taken.cloud, plan)))
    return new.uuid


def become(cell: Cell, plan: str, state: PlanState) -> None:
    cell.database.write(lambda tx: plans.change_state(tx, plan, state))


def runner_of(cell: Cell, *, may_act: Callable[[], bool] | None = None, **options: Any) -> PlanRunner:
    """Return a runner of the cell's plans whose pauses pass at once. ``options``: of :class:`PlanRunner`."""
    passing = count()
    return PlanRunner(
        cell.database,
        cell.conductor.owner,
        cell.conductor.operations.planned_moves,
        PresentPlans(cell.database, cell.mirror, _ENGINE),
        may_act or (lambda: cell.conductor.runner.may_act),
        clock=lambda: next(passing) * 1000.0,
        **options,
    )


def plan_of(cell: Cell, plan: str) -> PlanRow:
    with cell.database.read() as connection:
        return plans.get(connection, plan)


def moves_of_plan(cell: Cell, plan: str) -> list[PlanMove]:
    with cell.database.read() as connection:
        return plan_moves.of_plan(connection, plan)


def apply(cell: Cell, *, rounds: int = 200) -> None:
    """Let the runner and all workflows work until no plan is active."""
    runner = runner_of(cell)
    for _ in range(rounds):
        if not runner.look():
            return
        cell.bus.run()
    raise AssertionError("the plan does not end")


def migrations(cell: Cell) -> dict[str, list[str]]:
    """Return server → the statuses of its migrations."""
    columns = t.server_migrations.c
    found: dict[str, list[str]] = {}
    with cell.database.read() as connection:
        for row in connection.execute(sa.select(columns.instance_uuid, columns.status).order_by(columns.id)):
            found.setdefault(row.instance_uuid, []).append(row.status)
    return found
