# SPDX-License-Identifier: Apache-2.0
"""When a control process applies plans, and when it gives them up."""

from collections.abc import Callable, Sequence
from itertools import count

import pytest

from kilonova.claims.rest_of_plan import Verdict
from kilonova.claims.stored_plans import NewRest
from kilonova.conductor.plans.plan_runner import PlanRunner
from kilonova.db import plans
from kilonova.db.plan_moves import PlanMove
from kilonova.db.plans import PlanRow
from kilonova.model.move_plan import How
from kilonova.model.saved_plan import MoveState, PlanState
from kilonova.planning.drain import DrainRequest
from support.applied_plans import apply, become, moves_of_plan, plan_of, runner_of, save_drain
from support.cell import Cell, NewCell, host


@pytest.fixture
def cell(cell_of: NewCell) -> Cell:
    return cell_of(host("node1"), host("node2"), host("node3"))


def saved(cell: Cell) -> tuple[str, str]:
    """Boot a server, and save and begin a drain of its host; return server and plan."""
    (server,) = cell.boot(force_host="node1")
    cell.bus.run()
    plan = save_drain(cell, DrainRequest(frozenset({"node1"}), How.LIVE))
    become(cell, plan, PlanState.RUNNING)
    return server, plan


def states(cell: Cell, plan: str) -> list[MoveState]:
    return [move.state for move in moves_of_plan(cell, plan)]


def test_a_process_without_a_lease_applies_nothing(cell: Cell) -> None:
    _, plan = saved(cell)
    assert runner_of(cell, may_act=lambda: False).look() == 0
    assert (states(cell, plan), plan_of(cell, plan).owner) == ([MoveState.PLANNED], None)


def test_no_move_begins_while_the_cloud_is_read_only(cell: Cell) -> None:
    _, plan = saved(cell)
    frozen = runner_of(cell, may_begin=lambda: False)
    assert [frozen.look(), frozen.look()] == [1, 1]
    assert states(cell, plan) == [MoveState.PLANNED]
    become(cell, plan, PlanState.CANCELLING)
    frozen.look()
    assert plan_of(cell, plan).state is PlanState.CANCELLED


def test_a_busy_server_is_waited_for(cell: Cell) -> None:
    server, plan = saved(cell)
    cell.power(server, "reboot")
    runner = runner_of(cell)
    for _ in range(4):
        assert runner.look() == 1
    assert plan_of(cell, plan).stays[0]["reason"].startswith("the server has the task reboot")
    cell.bus.run()
    apply(cell)
    assert (plan_of(cell, plan).state, plan_of(cell, plan).stays) == (PlanState.DONE, [])
    assert cell.instance(server).host != "node1"


class Broken:
    """A planner that always fails."""

    def judge(self, plan: PlanRow, rest: Sequence[PlanMove], check: Callable[[], None]) -> Verdict:
        del plan, rest, check
        raise ZeroDivisionError

    def again(
        self,
        plan: PlanRow,
        rest: Sequence[PlanMove],
        failed: Sequence[PlanMove],
        first_wave: int,
        check: Callable[[], None],
    ) -> NewRest:
        raise NotImplementedError


def test_a_plan_that_cannot_be_applied_is_given_up(cell: Cell) -> None:
    _, plan = saved(cell)
    passing = count()
    moves = cell.conductor.operations.planned_moves
    runner = PlanRunner(
        cell.database, cell.conductor.owner, moves, Broken(), lambda: True, clock=lambda: next(passing) * 1000.0
    )
    looks = 0
    while runner.look():
        looks += 1
    assert 20 < looks < 100
    assert (plan_of(cell, plan).state, states(cell, plan)) == (PlanState.FAILED, [MoveState.CANCELLED])


def test_pauses_grow_while_a_plan_is_planned_again(cell: Cell) -> None:
    _, plan = saved(cell)
    now = [0.0]
    moves = cell.conductor.operations.planned_moves
    runner = PlanRunner(cell.database, cell.conductor.owner, moves, Broken(), lambda: True, clock=lambda: now[0])
    tried = []
    for second in range(20):
        now[0] = float(second)
        before = runner._pauses.get(plan, (0, 0.0))[0]
        runner.look()
        if runner._pauses[plan][0] > before:
            tried.append(second)
    assert tried == [0, 1, 2, 4, 8, 16]


def test_a_stopped_process_gives_its_plans_away(cell: Cell) -> None:
    _, plan = saved(cell)
    runner = runner_of(cell)
    runner.look()
    assert plan_of(cell, plan).owner == cell.conductor.owner
    runner.stop()
    with cell.database.read() as connection:
        assert plans.free(connection, cell.database.clock.now()) == (plan,)
