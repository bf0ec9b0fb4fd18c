# SPDX-License-Identifier: Apache-2.0
"""Plans that meet failures and other changes of the cloud: every server stays whole, and the plan ends."""

import random
from collections.abc import Callable, Sequence
from contextlib import suppress

import pytest

from kilonova.claims.rest_of_plan import MOST_FAILURES, Verdict
from kilonova.claims.stored_plans import NewRest
from kilonova.conductor.plans.applied_plan import MOST_REPLANS, AppliedPlan, PlanEnvironment
from kilonova.conductor.plans.rebalance_jobs import RebalanceJobs
from kilonova.db import plans
from kilonova.db.plan_moves import NewMove, PlanMove
from kilonova.db.plans import PlanRow
from kilonova.errors import KilonovaError
from kilonova.model.instance import LockedBy, VmState
from kilonova.model.move_plan import How
from kilonova.model.saved_plan import MoveState, PlanState
from kilonova.planning.drain import DrainRequest
from kilonova.planning.plan import Limits
from support.applied_plans import apply, become, migrations, moves_of_plan, plan_of, runner_of, save_drain
from support.cell import Cell, NewCell, asker, host
from support.samples import sampled


def saved(cell: Cell, how: How = How.COLD, **limits: int) -> str:
    plan = save_drain(cell, DrainRequest(frozenset({"node1"}), how, Limits(**limits)))
    become(cell, plan, PlanState.RUNNING)
    return plan


def booted(cell: Cell, count: int = 1) -> list[str]:
    servers = cell.boot(count, force_host="node1")
    cell.bus.run()
    return servers


def test_a_failed_move_goes_to_another_host(cell_of: NewCell) -> None:
    cell = cell_of(host("node1"), host("node2", failing_moves=-1), host("node3"))
    (server,) = booted(cell)
    plan = saved(cell, How.LIVE)
    first = moves_of_plan(cell, plan)[0].dest_host
    apply(cell)
    found = plan_of(cell, plan)
    assert found.state is PlanState.DONE
    assert cell.instance(server).host == "node3"
    assert [move.state for move in moves_of_plan(cell, plan)][-1] is MoveState.DONE
    assert found.replans == (first == "node2")
    cell.check()


def test_a_server_stays_if_all_its_moves_fail(cell_of: NewCell) -> None:
    names = [f"node{number}" for number in range(2, 7)]
    cell = cell_of(host("node1"), *(host(name, failing_moves=-1) for name in names))
    (server,) = booted(cell)
    plan = saved(cell, How.LIVE)
    apply(cell)
    found, moves = plan_of(cell, plan), moves_of_plan(cell, plan)
    assert (found.state, found.message) == (PlanState.FAILED, "Moves have failed: 1 server.")
    assert len(moves) == len({move.dest_host for move in moves}) == MOST_FAILURES
    assert all(move.reason for move in moves)
    (stay,) = found.stays
    assert stay["server"] == server
    assert stay["reason"].startswith("3 moves have failed, the last one because: ")
    assert cell.instance(server).host == "node1"
    cell.check()


def test_a_reverted_move_is_planned_again(cell_of: NewCell) -> None:
    cell = cell_of(host("node1"), host("node2"), host("node3"))
    (server,) = booted(cell)
    plan = saved(cell)
    runner_of(cell).look()
    cell.bus.run()
    cell.revert(server)
    cell.bus.run()
    apply(cell)
    first, second = moves_of_plan(cell, plan)
    assert (first.state, first.reason, second.state) == (MoveState.FAILED, "The move was reverted.", MoveState.DONE)
    assert first.dest_host != second.dest_host
    assert plan_of(cell, plan).state is PlanState.DONE
    cell.check()


def test_a_server_that_a_user_confirms_or_deletes_ends_its_move(cell_of: NewCell) -> None:
    cell = cell_of(host("node1"), host("node2"), host("node3"))
    confirmed, deleted = booted(cell, 2)
    plan = saved(cell)
    runner_of(cell).look()
    cell.bus.run()
    cell.confirm(confirmed)
    cell.delete(deleted)
    cell.bus.run()
    apply(cell)
    states = {move.server_uuid: move.state for move in moves_of_plan(cell, plan)}
    assert states == {confirmed: MoveState.DONE, deleted: MoveState.SKIPPED}
    assert plan_of(cell, plan).state is PlanState.DONE
    cell.check()


def test_a_move_that_cannot_be_confirmed_does_not_hold_the_plan_up(cell_of: NewCell) -> None:
    cell = cell_of(host("node1"), host("node2"))
    (server,) = booted(cell)
    plan = saved(cell)
    runner_of(cell).look()
    cell.bus.run()
    cell.conductor.operations.states.reset(cell.instance(server), VmState.ACTIVE, asker("req-reset"))
    apply(cell)
    (move,) = moves_of_plan(cell, plan)
    assert (move.state, move.reason) == (
        MoveState.FAILED,
        "The state of the server was changed before its confirmation.",
    )
    assert plan_of(cell, plan).state is PlanState.FAILED


def test_two_drains_at_once_do_not_move_servers_to_and_fro(cell_of: NewCell) -> None:
    cell = cell_of(*(host(f"node{number}") for number in range(1, 5)))
    servers = [*cell.boot(3, force_host="node1"), *cell.boot(3, force_host="node2")]
    cell.bus.run()
    both = [save_drain(cell, DrainRequest(frozenset({name}), How.LIVE)) for name in ("node1", "node2")]
    for plan in both:
        become(cell, plan, PlanState.RUNNING)
    apply(cell)
    assert [plan_of(cell, plan).state for plan in both] == [PlanState.DONE] * 2
    assert {cell.instance(each).host for each in servers} == {"node3", "node4"}
    assert all(len(statuses) == 1 for statuses in migrations(cell).values())
    cell.check()


class Agreeing:
    """A planner that agrees to every rest."""

    def judge(self, plan: PlanRow, rest: Sequence[PlanMove], check: Callable[[], None]) -> Verdict:
        del plan, rest, check
        return Verdict()

    def again(
        self,
        plan: PlanRow,
        rest: Sequence[PlanMove],
        failed: Sequence[PlanMove],
        first_wave: int,
        check: Callable[[], None],
    ) -> NewRest:
        raise NotImplementedError


class Objecting:
    """A planner that objects to every rest."""

    def judge(self, plan: PlanRow, rest: Sequence[PlanMove], check: Callable[[], None]) -> Verdict:
        del plan, rest, check
        return Verdict(objection="It is Monday.")

    def again(
        self,
        plan: PlanRow,
        rest: Sequence[PlanMove],
        failed: Sequence[PlanMove],
        first_wave: int,
        check: Callable[[], None],
    ) -> NewRest:
        del failed, first_wave, check
        names = NewMove.__dataclass_fields__
        return NewRest([NewMove(**{name: getattr(move, name) for name in names}) for move in rest], [], plan.seq + 1)


def test_a_plan_is_given_up_after_a_bounded_number_of_new_plans(cell_of: NewCell) -> None:
    cell = cell_of(host("node1"), host("node2"))
    booted(cell)
    plan = saved(cell)
    owner = cell.conductor.owner
    cell.database.write(lambda tx: plans.claim(tx, owner))
    moves, jobs = cell.conductor.operations.planned_moves, RebalanceJobs(cell.database, owner)
    env = PlanEnvironment(cell.database, owner, moves, Objecting(), lambda: None, jobs)
    for _ in range(MOST_REPLANS):
        assert AppliedPlan(env, plan_of(cell, plan)).advance()
    assert not AppliedPlan(env, plan_of(cell, plan)).advance()
    found = plan_of(cell, plan)
    assert (found.state, found.replans, found.seq > MOST_REPLANS) == (PlanState.FAILED, MOST_REPLANS, True)
    assert "Monday" in found.message
    assert [move.state for move in moves_of_plan(cell, plan)] == [MoveState.CANCELLED]


def test_a_drain_ends_with_the_servers_that_stay_in_the_end(cell_of: NewCell) -> None:
    cell = cell_of(host("node1"))
    gone, left = booted(cell, 2)
    plan = saved(cell, How.LIVE)
    cell.delete(gone)
    cell.bus.run()
    apply(cell)
    found = plan_of(cell, plan)
    assert (found.state, found.message) == (PlanState.DONE, "On their hosts stay: 1 server.")
    assert [stay["server"] for stay in found.stays] == [left]
    assert found.replans == 0, "there was no other plan to try"


def test_a_bounded_number_of_moves_is_under_way(cell_of: NewCell) -> None:
    cell = cell_of(host("node1"), host("node2"))
    booted(cell, 3)
    plan = saved(cell, How.LIVE)
    owner = cell.conductor.owner
    cell.database.write(lambda tx: plans.claim(tx, owner))
    moves, jobs = cell.conductor.operations.planned_moves, RebalanceJobs(cell.database, owner)
    env = PlanEnvironment(cell.database, owner, moves, Agreeing(), lambda: None, jobs, most_under_way=2)

    def states() -> list[MoveState]:
        return [move.state for move in moves_of_plan(cell, plan)]

    for _ in range(2):
        AppliedPlan(env, plan_of(cell, plan)).advance()
        assert states() == [MoveState.RUNNING, MoveState.RUNNING, MoveState.PLANNED]
    cell.bus.run()
    AppliedPlan(env, plan_of(cell, plan)).advance()
    AppliedPlan(env, plan_of(cell, plan)).advance()
    assert states() == [MoveState.DONE, MoveState.DONE, MoveState.RUNNING]


@pytest.mark.parametrize("seed", range(sampled(200, sample=4)))
def test_other_changes_leave_every_server_whole(cell_of: NewCell, seed: int) -> None:
    """Between the steps of the plan, users boot, delete, stop, move and lock servers, and operators pause the plan."""
    rng = random.Random(seed)
    cell = cell_of(host("node1"), host("node2"), host("node3"), host("node4"))
    servers = booted(cell, 3)
    plan = saved(cell, rng.choice(list(How)), per_wave=rng.choice([1, 2, 9]))
    runner = runner_of(cell)
    for _ in range(8):
        runner.look()
        for _ in range(rng.randrange(6)):
            cell.bus.step()
        if plan_of(cell, plan).state.is_final:
            break
        _disturb(cell, rng, servers, plan)
    cell.bus.run()
    if plan_of(cell, plan).state is PlanState.PAUSED:
        become(cell, plan, PlanState.RUNNING)
    apply(cell)
    cell.bus.run()
    for each in servers:
        if (server := cell.find(each)) is not None and server.vm_state is VmState.RESIZED:
            cell.confirm(each)
            cell.bus.run()
    states = {each: state for each, state in cell.check().items() if cell.instance(each).host is not None}
    assert set(states.values()) <= {"active", "stopped"}, "a server that was built is not whole"
    found = plan_of(cell, plan)
    assert found.state.is_final
    here = {each for each in states if cell.instance(each).host == "node1"}
    if found.state is PlanState.DONE:
        assert here <= {stay["server"] for stay in found.stays}
    done = [move.server_uuid for move in moves_of_plan(cell, plan) if move.state is MoveState.DONE]
    assert all(migrations(cell)[each] for each in done)
    assert len(done) == len(set(done)) or any(each in done for each in here), "a server has moved twice"


def _disturb(cell: Cell, rng: random.Random, servers: list[str], plan: str) -> None:
    server = rng.choice(servers)
    acts: list[Callable[[], object]] = [
        lambda: servers.extend(cell.boot(1, force_host="node1")),
        lambda: cell.delete(server),
        lambda: cell.power(server, rng.choice(["stop", "start"])),
        lambda: cell.live_migrate(server),
        lambda: cell.migrate(server, host=rng.choice(["node1", "node2"])),
        lambda: cell.conductor.operations.locks.lock(cell.instance(server), asker("req-lock"), LockedBy.ADMIN),
        lambda: cell.conductor.operations.locks.unlock(cell.instance(server), asker("req-unlock")),
        lambda: cell.revert(server),
        lambda: become(cell, plan, PlanState.PAUSED),
        lambda: become(cell, plan, PlanState.RUNNING),
        lambda: None,
    ]
    with suppress(KilonovaError):
        rng.choice(acts)()
