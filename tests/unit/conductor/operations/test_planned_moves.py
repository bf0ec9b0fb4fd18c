# SPDX-License-Identifier: Apache-2.0
"""Moves of plans begin once, and only from the host and in the plan for which they were planned."""

import pytest

from kilonova.conductor.operations.planned_moves import LeftHostError
from kilonova.db import plans, services
from kilonova.db.core.transaction import Transaction
from kilonova.db.plan_moves import PlanMove
from kilonova.db.plans import PlanLostError, PlanRow
from kilonova.errors import Conflict, NotFound, UnexpectedTaskState
from kilonova.model.instance import LockedBy
from kilonova.model.move_plan import How
from kilonova.model.saved_plan import MoveState, PlanState
from kilonova.model.server_migration import MoveKind
from kilonova.planning.drain import DrainRequest
from kilonova.records import replace
from support.applied_plans import become, migrations, moves_of_plan, plan_of, save_drain
from support.cell import Cell, NewCell, asker, host


@pytest.fixture
def cell(cell_of: NewCell) -> Cell:
    return cell_of(host("node1"), host("node2"), host("node3"))


def planned(cell: Cell, how: How = How.COLD) -> tuple[PlanRow, PlanMove]:
    """Save a drain with one move, and let this process apply it."""
    cell.boot(force_host="node1")
    cell.bus.run()
    plan = save_drain(cell, DrainRequest(frozenset({"node1"}), how))
    become(cell, plan, PlanState.RUNNING)
    cell.database.write(lambda tx: plans.claim(tx, cell.conductor.owner))
    (move,) = moves_of_plan(cell, plan)
    return plan_of(cell, plan), move


def test_a_move_begins_with_the_planned_host_and_only_once(cell: Cell) -> None:
    plan, move = planned(cell)
    operations = cell.conductor.operations.planned_moves
    operations.begin(plan, move)
    with pytest.raises(UnexpectedTaskState):
        operations.begin(plan, move)
    cell.bus.run()
    (begun,) = moves_of_plan(cell, plan.uuid)
    assert (begun.state, cell.instance(move.server_uuid).host) == (MoveState.RUNNING, move.dest_host)
    operations.confirm(plan, begun)
    cell.bus.run()
    assert migrations(cell) == {move.server_uuid: ["confirmed"]}
    with pytest.raises(NotFound):
        operations.confirm(plan, begun)
    cell.check()


def test_another_migration_is_not_confirmed(cell: Cell) -> None:
    plan, move = planned(cell)
    cell.migrate(move.server_uuid)
    cell.bus.run()
    with pytest.raises(NotFound):
        cell.conductor.operations.planned_moves.confirm(plan, replace(move, migration_uuid="another"))


def test_a_plan_that_is_not_running_begins_no_move(cell: Cell) -> None:
    plan, move = planned(cell)
    become(cell, plan.uuid, PlanState.PAUSED)
    with pytest.raises(PlanLostError):
        cell.conductor.operations.planned_moves.begin(plan, move)
    become(cell, plan.uuid, PlanState.RUNNING)
    cell.database.write(lambda tx: plans.release(tx, cell.conductor.owner))
    with pytest.raises(PlanLostError):
        cell.conductor.operations.planned_moves.begin(plan, move)
    assert migrations(cell) == {}


def test_a_changed_server_is_left_alone(cell: Cell) -> None:
    plan, move = planned(cell)
    begin = cell.conductor.operations.planned_moves.begin
    server = cell.instance(move.server_uuid)
    cell.conductor.operations.locks.lock(server, asker("req-lock"), LockedBy.OWNER)
    with pytest.raises(Conflict, match="locked"):
        begin(plan, move)
    with pytest.raises(LeftHostError):
        begin(plan, replace(move, source_host="node3"), locked_too=True)
    begin(plan, move, locked_too=True)
    cell.bus.run()
    cell.check()


def test_a_host_that_is_up_is_not_evacuated(cell: Cell) -> None:
    plan, move = planned(cell)
    evacuation = replace(move, kind=MoveKind.EVACUATE, dest_host=None)
    begin = cell.conductor.operations.planned_moves.begin
    with pytest.raises(Conflict, match="is up"):
        begin(plan, evacuation)

    def force_down(tx: Transaction) -> None:
        service = services.find_by_host(tx.connection, "node1")
        assert service is not None
        services.update(tx, service.uuid, forced_down=True)

    cell.database.write(force_down)
    begin(plan, evacuation)
    with pytest.raises(Conflict, match="already"):
        begin(plan, evacuation)
    cell.bus.run()
    assert migrations(cell)[move.server_uuid] == ["completed"]
    assert cell.instance(move.server_uuid).host != "node1"
