# SPDX-License-Identifier: Apache-2.0
"""Moves of plans: ordinary moves of servers, which begin in one transaction with the record of the plan."""

from collections.abc import Mapping

from kilonova.conductor.operations.moves import Moves, NewMove, start_move
from kilonova.conductor.operations.starting import Starter
from kilonova.conductor.workflow_engine.run import Interrupt
from kilonova.conductor.workflow_engine.workflow import Workflow
from kilonova.conductor.workflows.evacuate import EVACUATE
from kilonova.conductor.workflows.live_migrate import LIVE_MIGRATE
from kilonova.conductor.workflows.moves import MoveFacts
from kilonova.conductor.workflows.resize import MIGRATE
from kilonova.db import plan_moves, plans, services, workflows
from kilonova.db.core.transaction import Transaction
from kilonova.db.plan_moves import PlanMove
from kilonova.db.plans import PlanRow
from kilonova.errors import ConcurrentUpdate, Conflict
from kilonova.identifiers import new_uuid
from kilonova.model.instance import Instance
from kilonova.model.requester import Requester
from kilonova.model.saved_plan import PlanState
from kilonova.model.server_migration import MigrationType, MoveKind

_KINDS: Mapping[MoveKind, tuple[Workflow[MoveFacts], MigrationType]] = {
    MoveKind.LIVE_MIGRATE: (LIVE_MIGRATE, MigrationType.LIVE_MIGRATION),
    MoveKind.COLD_MIGRATE: (MIGRATE, MigrationType.MIGRATION),
    MoveKind.EVACUATE: (EVACUATE, MigrationType.EVACUATION),
}


class LeftHostError(ConcurrentUpdate):
    """The server of a planned move is no longer on its host."""


class PlannedMoves:
    """Operations that begin and confirm the moves of plans."""

    def __init__(self, starter: Starter, moves: Moves) -> None:
        self._starter = starter
        self._moves = moves

    def begin(self, plan: PlanRow, move: PlanMove, *, locked_too: bool = False) -> None:
        """Start a planned move, unless another process applies the plan, or the server has left its host.

        ``locked_too``: whether a locked server is migrated.
        Raises: PlanLostError if this process may no longer apply the plan; NotFound, LeftHostError if the server is
        not on its host; UnexpectedTaskState, Conflict, ConcurrentUpdate if it cannot be moved now.
        """
        workflow, kind = _KINDS[move.kind]
        who = requester(plan)

        def only_if(tx: Transaction, server: Instance) -> None:
            plans.require(tx, plan.uuid, self._starter.services.owner, {PlanState.RUNNING})
            if server.host != move.source_host:
                raise LeftHostError(f"The server is no longer on host {move.source_host}.")
            if move.kind is MoveKind.EVACUATE:
                _require_down(tx, move.source_host)
                _require_no_evacuation(tx, move.server_uuid)
            elif server.locked_by is not None and not locked_too:
                raise Conflict("The server is locked.")

        def note(tx: Transaction, migration: str) -> None:
            plan_moves.begin(tx, move, migration, who.request_id)

        asked = NewMove(workflow, kind, host=move.dest_host)
        why = Interrupt.EVACUATE if move.kind is MoveKind.EVACUATE else Interrupt.OTHER_ACTION
        start_move(self._starter, asked, move.server_uuid, who, only_if=only_if, note=note, why=why)

    def confirm(self, plan: PlanRow, move: PlanMove) -> None:
        """Start confirming a cold migration of a plan.

        Raises: NotFound if it no longer waits for confirmation; UnexpectedTaskState, ConcurrentUpdate.
        """
        self._moves.confirm_resize(move.server_uuid, requester(plan), migration=move.migration_uuid)


def _require_down(tx: Transaction, host: str) -> None:
    service = services.find_by_host(tx.connection, host)
    if service is not None and service.is_up:
        raise Conflict(f"The compute service of host {host} is up, so the server is not evacuated.")


def _require_no_evacuation(tx: Transaction, server: str) -> None:
    under_way = workflows.of_instance(tx.connection, server)
    if any(row.kind == EVACUATE.kind and not (row.stuck or row.awaits_host) for row in under_way):
        raise Conflict("The server is being evacuated already.")


def requester(plan: PlanRow) -> Requester:
    """Return the requester of a move: the user who saved the plan, with a request id of its own."""
    return Requester(f"req-{new_uuid()}", plan.user_id, plan.project_id)
