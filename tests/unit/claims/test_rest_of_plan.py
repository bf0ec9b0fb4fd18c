# SPDX-License-Identifier: Apache-2.0
"""The rest of a drain on the present cloud: changes after which it is planned again, and failures."""

import pytest

from kilonova.claims.rest_of_plan import MOST_FAILURES, PresentPlans, has_busy_servers
from kilonova.cli.wiring.rules import build_engine
from kilonova.db.plan_moves import PlanMove
from kilonova.db.plans import PlanRow
from kilonova.model.instance import LockedBy
from kilonova.model.move_plan import How
from kilonova.model.saved_plan import PlanState
from kilonova.planning.drain import DrainRequest
from kilonova.planning.plan import Limits
from kilonova.records import replace
from kilonova.scheduler.settings import SchedulerConfig
from support.applied_plans import become, moves_of_plan, plan_of, save_drain
from support.cell import BIGGER, Cell, NewCell, asker, host

Saved = tuple[PlanRow, list[PlanMove]]


@pytest.fixture
def cell(cell_of: NewCell) -> Cell:
    cell = cell_of(host("node1"), host("node2"), host("node3"))
    cell.boot(2, force_host="node1")
    cell.bus.run()
    return cell


@pytest.fixture
def planner(cell: Cell) -> PresentPlans:
    return PresentPlans(cell.database, cell.mirror, build_engine(SchedulerConfig()))


@pytest.fixture
def saved(cell: Cell) -> Saved:
    plan = save_drain(cell, DrainRequest(frozenset({"node1"}), How.LIVE, Limits(per_wave=1)))
    return plan_of(cell, plan), moves_of_plan(cell, plan)


def test_an_unchanged_cloud_has_no_objection(planner: PresentPlans, saved: Saved) -> None:
    plan, moves = saved
    assert planner.judge(plan, moves) == planner.judge(plan, moves[1:] + moves[:1])
    assert planner.judge(plan, moves).objection is None
    assert "has no planned move" in (planner.judge(plan, moves[:1]).objection or "")


def test_servers_that_have_left_are_gone(cell: Cell, planner: PresentPlans, saved: Saved) -> None:
    plan, (first, second) = saved
    cell.delete(first.server_uuid)
    cell.live_migrate(second.server_uuid)
    cell.bus.run()
    verdict = planner.judge(plan, [first, second])
    assert [move for move, _ in verdict.gone] == [first, second]
    assert verdict.objection is None


def test_changes_of_servers_are_objections(cell: Cell, planner: PresentPlans, saved: Saved) -> None:
    plan, moves = saved
    server = cell.instance(moves[0].server_uuid)
    cell.conductor.operations.locks.lock(server, asker("req-lock"), LockedBy.ADMIN)
    assert "is locked" in (planner.judge(plan, moves).objection or "")
    assert planner.judge(replace(plan, request={**plan.request, "locked": True}), moves).objection is None
    gone = replace(moves[1], dest_host="gone")
    assert "host gone does not exist" in (planner.judge(plan, [gone, moves[0]]).objection or "")


def test_a_full_destination_is_an_objection(cell: Cell, planner: PresentPlans, saved: Saved) -> None:
    plan, moves = saved
    cell.boot(2, flavor=BIGGER, force_host=moves[0].dest_host)
    cell.bus.run()
    assert "refuses" in (planner.judge(plan, moves).objection or "")
    assert {move.dest_host for move in planner.again(plan, moves, [], 3).moves} == {"node2", "node3"} - {
        moves[0].dest_host
    }


def test_servers_avoid_hosts_that_another_plan_empties(cell: Cell, planner: PresentPlans, saved: Saved) -> None:
    plan, moves = saved
    other = save_drain(cell, DrainRequest(frozenset({"node2"})))
    assert planner.judge(plan, moves).objection is None
    become(cell, other, PlanState.RUNNING)
    assert planner.judge(plan, moves).objection == "Another plan empties host node2."
    assert {move.dest_host for move in planner.again(plan, moves, [], 1).moves} == {"node3"}


def test_servers_avoid_hosts_on_which_they_failed(planner: PresentPlans, saved: Saved) -> None:
    plan, moves = saved
    failed = replace(moves[0], reason="no such luck")
    found = planner.again(plan, moves, [failed], 5)
    (again,) = [move for move in found.moves if move.server_uuid == failed.server_uuid]
    assert again.dest_host not in {"node1", failed.dest_host}
    assert min(move.wave for move in found.moves) == 5
    found = planner.again(plan, moves, [failed] * MOST_FAILURES, 5)
    (stay,) = found.stays
    assert stay["reason"] == "3 moves have failed, the last one because: no such luck"


def test_only_servers_with_a_task_are_busy() -> None:
    assert has_busy_servers([{"reason": "the server is locked"}, {"reason": "the server has the task rebooting"}])
    assert not has_busy_servers([{"reason": "no host can take the server"}])
