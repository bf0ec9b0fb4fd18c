# SPDX-License-Identifier: Apache-2.0
"""One step of applying a plan. Each step reads the database, so any control process can go on at any moment.

::

    moves under way ──▶ wait; confirm cold migrations; record results
        │ none left
    cancelling ──▶ cancelled          paused ──▶ wait
        │ running
    judge the rest ──objection──▶ plan the rest again (a bounded number of times)
        │ valid
    moves left ──▶ begin the next wave          no moves left ──▶ done, or failed
"""

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from typing import Any, Protocol

from kilonova.claims.rest_of_plan import Verdict, has_busy_servers
from kilonova.claims.stored_plans import NewRest
from kilonova.conductor.operations.planned_moves import LeftHostError, PlannedMoves
from kilonova.conductor.plans.move_results import reason_of, result_of
from kilonova.conductor.plans.rebalance_jobs import NoJobError, RebalanceJobs
from kilonova.db import instances, plan_moves, plans, server_migrations
from kilonova.db.core.transaction import Transaction
from kilonova.db.database import Database
from kilonova.db.jobs import QueueFull
from kilonova.db.plan_moves import PlanMove
from kilonova.db.plans import PlanLostError, PlanRow
from kilonova.errors import ConcurrentUpdate, Conflict, NotFound, UnexpectedTaskState
from kilonova.model.instance import VmState
from kilonova.model.saved_plan import MoveState, PlanKind, PlanState
from kilonova.model.server_migration import MigrationStatus
from kilonova.records import dataclass

LOG = logging.getLogger(__name__)
#: How often the rest of a plan is planned again before the plan is given up.
MOST_REPLANS = 20
_CHANGED = (NotFound, UnexpectedTaskState, Conflict, ConcurrentUpdate)


class Planner(Protocol):
    """Judges and renews the rests of plans; :class:`kilonova.claims.rest_of_plan.PresentPlans`."""

    def judge(self, plan: PlanRow, rest: Sequence[PlanMove], check: Callable[[], None]) -> Verdict:
        """Tell whether the moves of a plan that have not begun are valid."""

    def again(
        self,
        plan: PlanRow,
        rest: Sequence[PlanMove],
        failed: Sequence[PlanMove],
        first_wave: int,
        check: Callable[[], None],
    ) -> NewRest:
        """Plan the rest again."""


@dataclass(frozen=True, slots=True)
class PlanEnvironment:
    """What applying a plan needs. ``owner``: this control process. ``check``: raises if the process has to stop.

    ``ended``: called with the state of each move that has ended. ``may_begin``: whether moves may begin.
    ``most_under_way``: number of moves of a plan that are under way at the same time.
    """

    database: Database
    owner: str
    moves: PlannedMoves
    planner: Planner
    check: Callable[[], None]
    jobs: RebalanceJobs
    ended: Callable[[MoveState], None] = lambda _state: None
    may_begin: Callable[[], bool] = lambda: True
    most_under_way: int = 200


class AppliedPlan:
    """One plan that this control process applies, as read from the database."""

    def __init__(self, env: PlanEnvironment, plan: PlanRow) -> None:
        self._env = env
        self._plan = plan

    def advance(self) -> bool:
        """Do what can be done now; return whether the rest was planned again.

        Raises: PlanLostError if the plan was changed meanwhile or another process applies it; RuleFailed, Unavailable.
        """
        under_way = self._attend(self._moves({MoveState.RUNNING}))
        goes_on = self._plan.state is PlanState.RUNNING and self._env.may_begin()
        if under_way:
            if goes_on:
                self._begin(under_way[0].wave, self._env.most_under_way - len(under_way))
            return False
        if self._plan.state is PlanState.CANCELLING:
            self._finish(PlanState.CANCELLED, "The plan was cancelled.")
        if goes_on and self._plan.job_uuid is not None:
            return self._take_result(self._plan.job_uuid)
        return goes_on and self._go_on()

    def give_up(self, reason: str) -> None:
        """End a running plan, because it could not be advanced again and again. Raises: PlanLostError."""
        self._finish(PlanState.FAILED, reason)

    # --- moves under way ----------------------------------------------------------------------------------------------

    def _attend(self, moves: Sequence[PlanMove]) -> list[PlanMove]:
        """Record the results of moves that have ended, and confirm cold migrations; return the moves under way."""
        if not moves:
            return []
        with self._env.database.read() as connection:
            statuses = server_migrations.statuses(connection, [move.migration_uuid or "" for move in moves])
            deleted = instances.deletions(connection, [move.server_uuid for move in moves])
        left = []
        for move in moves:
            status = statuses.get(move.migration_uuid or "")
            state = result_of(move.kind, status)
            if state is None:
                if status is not MigrationStatus.FINISHED or self._confirm(move):
                    left.append(move)
            elif deleted.get(move.server_uuid, True):
                self._record(move, MoveState.SKIPPED, "The server was deleted.")
            else:
                self._record_result(move, state, status)
        return left

    def _confirm(self, move: PlanMove) -> bool:
        """Start confirming a cold migration; return False, after recording this, if it can no longer be confirmed."""
        try:
            self._env.moves.confirm(self._plan, move)
        except _CHANGED as error:  # a user has confirmed or reverted it, or has changed the server
            LOG.debug("Plan %s: server %s was not confirmed: %s", self._plan.uuid, move.server_uuid, error)
            with self._env.database.read() as connection:
                server = instances.find(connection, move.server_uuid)
            if server is not None and server.vm_state is not VmState.RESIZED and server.task_state is None:
                self._record(move, MoveState.FAILED, "The state of the server was changed before its confirmation.")
                return False
        return True

    def _record_result(self, move: PlanMove, state: MoveState, status: MigrationStatus | None) -> None:
        if state is MoveState.DONE:
            self._record(move, state)
            return
        with self._env.database.read() as connection:
            server = instances.find(connection, move.server_uuid)
        fault = None if server is None or server.fault is None else server.fault.message
        self._record(move, state, reason_of(status, fault))

    def _record(self, move: PlanMove, state: MoveState, reason: str | None = None) -> None:
        def record(tx: Transaction) -> None:
            plans.require(tx, self._plan.uuid, self._env.owner)
            plan_moves.end(tx, move, state, reason)

        self._env.database.write(record)
        self._env.ended(state)
        level = logging.WARNING if state is MoveState.FAILED else logging.INFO
        told = f"{state.value}: {reason}" if reason else state.value
        LOG.log(
            level,
            "Plan %s: server %s from %s to %s: %s",
            self._plan.uuid,
            move.server_uuid,
            move.source_host,
            move.dest_host,
            told,
        )

    # --- the next wave ------------------------------------------------------------------------------------------------

    def _go_on(self) -> bool:
        rest = self._moves({MoveState.PLANNED})
        verdict = self._env.planner.judge(self._plan, rest, self._env.check)
        for move, reason in verdict.gone:
            self._record(move, MoveState.SKIPPED, reason)
        gone = {move.id for move, _ in verdict.gone}
        rest = [move for move in rest if move.id not in gone]
        if verdict.objection is not None:
            return self._replan(rest, verdict.objection)
        if not rest:
            return self._end()
        wave = rest[0].wave
        first = [move for move in rest if move.wave == wave]
        self._tell(f"Wave {wave} begins: {_counted(len(first), 'move')}.")
        self._begin(wave, self._env.most_under_way)
        return False

    def _begin(self, wave: int, most: int) -> None:
        """Begin at most ``most`` moves of a wave. The state of a server may have changed since the wave was judged."""
        if most <= 0:
            return
        locked_too = bool(self._plan.request.get("locked"))
        with self._env.database.read() as connection:
            moves = plan_moves.next_of_wave(connection, self._plan.uuid, wave, most)
        for move in moves:
            self._env.check()
            try:
                self._env.moves.begin(self._plan, move, locked_too=locked_too)
            except PlanLostError:
                raise
            except (NotFound, LeftHostError) as error:
                self._record(move, MoveState.SKIPPED, error.message)
            except _CHANGED as error:  # a drain is planned again with this server
                is_drain = self._plan.kind is PlanKind.DRAIN
                self._record(move, MoveState.SKIPPED if is_drain else MoveState.FAILED, error.message)

    def _replan(self, rest: Sequence[PlanMove], objection: str) -> bool:
        plan = self._plan
        if plan.replans >= MOST_REPLANS:
            self._finish(PlanState.FAILED, f"The rest was planned again {plan.replans} times. At last: {objection}")
            return False
        LOG.info("Plan %s: the rest is planned again. %s", plan.uuid, objection)
        if plan.kind is PlanKind.REBALANCE:
            with suppress(NoJobError, QueueFull):
                ended = self._moves(frozenset(MoveState) - {MoveState.PLANNED})
                self._env.jobs.begin(plan, ended, f"The rest is being planned again. {objection}")
                return True
        self._store(self._planned_again(rest), f"The rest was planned again. {objection}")
        return True

    def _take_result(self, job: str) -> bool:
        """Store the moves that a job has planned, if it has ended; without a result, keep the moves that are valid."""
        first = self._first_wave()
        try:
            new = self._env.jobs.result(job, first)
        except NoJobError as error:
            rest = self._moves({MoveState.PLANNED})
            self._store(self._planned_again(rest), f"Moves that are no longer valid were left out. {error}")
            return True
        if new is not None:
            self._store(new, f"The rest was planned again in job {job}.")
        return new is not None

    def _first_wave(self) -> int:
        ended = self._moves(frozenset(MoveState) - {MoveState.PLANNED})
        return max((move.wave + 1 for move in ended), default=0)

    def _planned_again(self, rest: Sequence[PlanMove]) -> NewRest:
        ended = self._moves(frozenset(MoveState) - {MoveState.PLANNED})
        failed = [move for move in ended if move.state is MoveState.FAILED]
        return self._env.planner.again(self._plan, rest, failed, self._first_wave(), self._env.check)

    def _store(self, new: NewRest, message: str) -> None:
        uuid, owner = self._plan.uuid, self._env.owner
        self._env.database.write(lambda tx: plans.replan(tx, uuid, owner, new.moves, new.stays, new.seq, message))

    # --- the end ------------------------------------------------------------------------------------------------------

    def _end(self) -> bool:
        """End the plan; return True if servers that could not be moved before can be moved now, or soon."""
        plan = self._plan
        stays = plan.stays
        if plan.kind is PlanKind.DRAIN and stays and plan.replans < MOST_REPLANS:
            new = self._planned_again([])
            if new.moves or has_busy_servers(new.stays):
                self._store(new, "Servers that stayed were planned again.")
                return True
            stays = new.stays
        last = {move.server_uuid: move for move in self._moves(frozenset(MoveState))}
        failed = [move for move in last.values() if move.state is MoveState.FAILED]
        if failed:
            self._finish(PlanState.FAILED, f"Moves have failed: {_counted(len(failed), 'server')}.", stays)
        else:
            told = f"On their hosts stay: {_counted(len(stays), 'server')}." if stays else ""
            self._finish(PlanState.DONE, told, stays)
        return False

    def _finish(self, state: PlanState, message: str, stays: Sequence[Mapping[str, Any]] | None = None) -> None:
        """End the plan. ``stays``: the servers that stay; None: those that are known."""
        uuid, owner = self._plan.uuid, self._env.owner
        left = self._plan.stays if stays is None else stays
        self._env.database.write(lambda tx: plans.finish(tx, uuid, owner, state, message, left))
        LOG.info("Plan %s is %s%s", uuid, state.value, f": {message}" if message else "")

    def _tell(self, message: str) -> None:
        uuid, owner = self._plan.uuid, self._env.owner
        self._env.database.write(lambda tx: plans.tell(tx, uuid, owner, message))
        LOG.info("Plan %s: %s", uuid, message)

    def _moves(self, states: Collection[MoveState]) -> list[PlanMove]:
        with self._env.database.read() as connection:
            return plan_moves.of_plan(connection, self._plan.uuid, states)


def _counted(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"
