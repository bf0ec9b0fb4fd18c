# SPDX-License-Identifier: Apache-2.0
"""JSON views of saved plans."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from kilonova.api.compute.times import whole_seconds
from kilonova.db.plan_moves import PlanMove, Totals
from kilonova.db.plans import PlanRow
from kilonova.model.saved_plan import MoveState
from kilonova.model.server_migration import MoveKind


def plan_summary(plan: PlanRow, totals: Totals) -> dict[str, Any]:
    """Return a plan with the numbers of its moves, without the moves."""
    return {
        "id": plan.uuid,
        "kind": plan.kind.value,
        "state": plan.state.value,
        "seq": plan.seq,
        "request": plan.request,
        "progress": {state.value: totals.moves.get(state, 0) for state in MoveState},
        "waves": totals.waves,
        "gib": round(totals.gib, 3),
        "gib_done": round(totals.gib_done, 3),
        "stays": plan.stays,
        "replans": plan.replans,
        "message": plan.message,
        "process": plan.owner,
        "project_id": plan.project_id,
        "user_id": plan.user_id,
        "request_id": plan.request_id,
        "created_at": whole_seconds(plan.created_at),
        "started_at": whole_seconds(plan.started_at),
        "finished_at": whole_seconds(plan.finished_at),
    }


def plan_detail(plan: PlanRow, moves: Sequence[PlanMove]) -> dict[str, Any]:
    """Return a plan with its moves."""
    totals = Totals(
        Counter(move.state for move in moves),
        max((move.wave + 1 for move in moves), default=0),
        sum(move.gib for move in moves),
        sum(move.gib for move in moves if move.state is MoveState.DONE),
    )
    return {**plan_summary(plan, totals), "moves": [_move_view(move) for move in moves]}


def _move_view(move: PlanMove) -> dict[str, Any]:
    return {
        "server": move.server_uuid,
        "name": move.server_name,
        "from": move.source_host,
        "to": move.dest_host,
        "wave": move.wave,
        "kind": move.kind.value,
        "live": move.kind is MoveKind.LIVE_MIGRATE,
        "gib": move.gib,
        "state": move.state.value,
        "reason": move.reason,
        "migration": move.migration_uuid,
        "request_id": move.request_id,
        "started_at": whole_seconds(move.started_at),
        "finished_at": whole_seconds(move.finished_at),
    }
