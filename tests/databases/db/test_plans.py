# SPDX-License-Identifier: Apache-2.0
"""Saved plans: requested states, the process that applies a plan, new moves for the rest, and the limits."""

from datetime import timedelta
from functools import partial

import pytest

from kilonova.db import host_agents, plan_moves, plans
from kilonova.db.core.transaction import Transaction
from kilonova.db.database import Database
from kilonova.db.host_agents import Process
from kilonova.db.plan_moves import NewMove
from kilonova.db.plans import NewPlan, PlanLostError, PlanRow
from kilonova.errors import ConcurrentUpdate, Conflict, NotFound
from kilonova.identifiers import new_uuid
from kilonova.model.saved_plan import MoveState, PlanKind, PlanState
from kilonova.model.server_migration import MoveKind

LEASE = timedelta(seconds=60)
P = PlanState


def move(wave: int = 0, server: str = "server", gib: float = 2.0) -> NewMove:
    return NewMove(
        wave=wave,
        server_uuid=server,
        server_name="vm",
        kind=MoveKind.COLD_MIGRATE,
        source_host="node1",
        dest_host="node2",
        gib=gib,
    )


def saved(database: Database, *moves: NewMove, most: int = plans.MOST_PLANS) -> str:
    uuid = new_uuid()
    plan = NewPlan(
        uuid=uuid, kind=PlanKind.DRAIN, project_id="p", user_id="u", request_id="r", request={}, stays=[], seq=7
    )
    database.write(lambda tx: plans.add(tx, plan, moves, most=most))
    return uuid


def become(database: Database, uuid: str, *states: PlanState) -> PlanRow:
    for state in states:
        database.write(partial(plans.change_state, uuid=uuid, to=state))
    with database.read() as connection:
        return plans.get(connection, uuid)


def states(database: Database, uuid: str) -> list[MoveState]:
    with database.read() as connection:
        return [each.state for each in plan_moves.of_plan(connection, uuid)]


def alive(tx: Transaction, *processes: str) -> None:
    for each in processes:
        host_agents.register(tx, Process(each), (), LEASE)


def test_a_plan_is_stored_with_its_moves(database: Database) -> None:
    uuid = saved(database, move(1, "b"), move(0, "a", gib=0.5))
    with database.read() as connection:
        plan, moves = plans.get(connection, uuid), plan_moves.of_plan(connection, uuid)
        totals = plan_moves.totals(connection, [uuid, "other"])
    assert (plan.state, plan.kind, plan.seq, plan.owner, plan.started_at) == (P.READY, PlanKind.DRAIN, 7, None, None)
    assert [(each.server_uuid, each.wave, each.state) for each in moves] == [
        ("a", 0, MoveState.PLANNED),
        ("b", 1, MoveState.PLANNED),
    ]
    assert totals == {uuid: plan_moves.Totals({MoveState.PLANNED: 2}, 2, 2.5, 0.0)}


def test_the_next_moves_of_a_wave_are_those_that_have_not_begun(database: Database) -> None:
    uuid = saved(database, move(1, "d"), move(0, "a"), move(0, "b"), move(0, "c"))
    with database.read() as connection:
        first, *_ = plan_moves.of_plan(connection, uuid)
    database.write(lambda tx: plan_moves.begin(tx, first, "migration", "req-1"))
    with database.read() as connection:
        found = [plan_moves.next_of_wave(connection, uuid, 0, most) for most in (1, 9)]
    assert [[each.server_uuid for each in some] for some in found] == [["b"], ["b", "c"]]


@pytest.mark.parametrize(
    ("way", "to"),
    [
        ((), P.PAUSED),
        ((), P.CANCELLING),
        ((P.CANCELLED,), P.RUNNING),
        ((P.RUNNING, P.CANCELLING), P.RUNNING),
        ((P.RUNNING, P.CANCELLING), P.PAUSED),
        ((P.RUNNING,), P.CANCELLED),
    ],
)
def test_other_states_cannot_be_requested(database: Database, way: tuple[PlanState, ...], to: PlanState) -> None:
    uuid = saved(database, move())
    become(database, uuid, *way)
    with pytest.raises(Conflict, match=to.value):
        become(database, uuid, to)


def test_a_repeated_request_changes_nothing(database: Database) -> None:
    uuid = saved(database, move())
    first = become(database, uuid, P.RUNNING)
    assert first.started_at is not None
    assert become(database, uuid, P.RUNNING) == first
    assert become(database, uuid, P.PAUSED, P.PAUSED, P.RUNNING).started_at == first.started_at


def test_cancelling_before_the_start_ends_the_plan(database: Database) -> None:
    uuid = saved(database, move())
    plan = database.write(lambda tx: plans.cancel(tx, uuid))
    assert (plan.state, plan.finished_at is not None) == (P.CANCELLED, True)
    assert states(database, uuid) == [MoveState.CANCELLED]
    assert database.write(lambda tx: plans.cancel(tx, uuid)) == plan


def test_an_active_plan_is_not_deleted(database: Database) -> None:
    uuid = saved(database, move())
    become(database, uuid, P.RUNNING)
    with pytest.raises(Conflict, match="cancel it first"):
        database.write(lambda tx: plans.remove(tx, uuid))
    database.write(lambda tx: plans.cancel(tx, uuid))
    database.write(lambda tx: plans.claim(tx, "me"))
    database.write(lambda tx: plans.finish(tx, uuid, "me", P.CANCELLED, "", []))
    database.write(lambda tx: plans.remove(tx, uuid))
    assert states(database, uuid) == []
    with pytest.raises(NotFound):
        database.write(lambda tx: plans.remove(tx, uuid))


def test_the_plans_of_ended_processes_are_free(database: Database) -> None:
    database.write(lambda tx: alive(tx, "one", "two"))
    uuid = saved(database, move())
    saved(database, move())
    assert database.write(lambda tx: plans.claim(tx, "one")) == 0
    become(database, uuid, P.RUNNING)
    assert database.write(lambda tx: plans.claim(tx, "one")) == 1
    assert database.write(lambda tx: plans.claim(tx, "two")) == 0
    with database.read() as connection:
        assert [each.uuid for each in plans.owned(connection, "one")] == [uuid]
        assert plans.free(connection, database.clock.now()) == ()
        assert plans.free(connection, database.clock.now() + 2 * LEASE) == (uuid,)
    database.write(lambda tx: host_agents.end_leases(tx, ["one"]))
    assert database.write(lambda tx: plans.claim(tx, "two")) == 1
    with pytest.raises(PlanLostError):
        database.write(lambda tx: plans.tell(tx, uuid, "one", "late"))
    database.write(lambda tx: plans.release(tx, "two"))
    with database.read() as connection:
        assert plans.free(connection, database.clock.now()) == (uuid,)


def test_a_move_begins_once(database: Database) -> None:
    uuid = saved(database, move())
    with database.read() as connection:
        (planned,) = plan_moves.of_plan(connection, uuid)
    database.write(lambda tx: plan_moves.begin(tx, planned, "migration", "req"))
    with pytest.raises(ConcurrentUpdate):
        database.write(lambda tx: plan_moves.begin(tx, planned, "another", "req"))
    database.write(lambda tx: plan_moves.end(tx, planned, MoveState.FAILED, "x" * 2000))
    database.write(lambda tx: plan_moves.end(tx, planned, MoveState.DONE))
    with database.read() as connection:
        (ended,) = plan_moves.of_plan(connection, uuid, [MoveState.FAILED])
    assert (ended.migration_uuid, len(ended.reason or "")) == ("migration", 1000)


def test_the_rest_of_a_plan_is_replaced(database: Database) -> None:
    uuid = saved(database, move(0, "a"), move(1, "b"), move(1, "c"))
    become(database, uuid, P.RUNNING)
    database.write(lambda tx: plans.claim(tx, "me"))
    with database.read() as connection:
        first, *_ = plan_moves.of_plan(connection, uuid)
    database.write(lambda tx: plan_moves.end(tx, first, MoveState.DONE))
    stays = [{"server": "c"}]
    database.write(lambda tx: plans.replan(tx, uuid, "me", [move(1, "b")], stays, 9, "because"))
    with database.read() as connection:
        plan, moves = plans.get(connection, uuid), plan_moves.of_plan(connection, uuid)
    assert [(each.server_uuid, each.state) for each in moves] == [("a", MoveState.DONE), ("b", MoveState.PLANNED)]
    assert (plan.replans, plan.seq, plan.stays, plan.message) == (1, 9, stays, "because")
    become(database, uuid, P.PAUSED)
    with pytest.raises(PlanLostError):
        database.write(lambda tx: plans.replan(tx, uuid, "me", [], [], 9, ""))


def test_the_number_of_plans_is_limited(database: Database) -> None:
    first, second = saved(database, move()), saved(database, move())
    with pytest.raises(Conflict, match="Delete some"):
        saved(database, most=2)
    become(database, second, P.RUNNING)
    with pytest.raises(Conflict, match="limit"):
        database.write(lambda tx: plans.change_state(tx, first, P.RUNNING, most_active=1))
    become(database, first, P.CANCELLED)
    third = saved(database, most=2)
    with database.read() as connection:
        assert [each.uuid for each in plans.list_page(connection)] == [third, second]
    assert states(database, first) == []
