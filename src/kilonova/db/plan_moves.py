# SPDX-License-Identifier: Apache-2.0
"""Moves of saved plans, with their states."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from kilonova.db.core import tables as t
from kilonova.db.core.statements import pieces
from kilonova.db.core.transaction import Transaction
from kilonova.errors import ConcurrentUpdate
from kilonova.model.saved_plan import MoveState
from kilonova.model.server_migration import MoveKind
from kilonova.records import dataclass

_LONGEST_REASON = 1000
_M = t.plan_moves.c


@dataclass(frozen=True, slots=True, kw_only=True)
class NewMove:
    """A planned move of a server. ``wave``: number of its wave, from 0.

    ``dest_host``: None to let the scheduler choose.
    """

    wave: int
    server_uuid: str
    server_name: str
    kind: MoveKind
    source_host: str
    dest_host: str | None
    gib: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanMove:
    """A move of a saved plan. ``migration_uuid``, ``request_id``: of a move that has begun.

    ``reason``: why it failed or was skipped.
    """

    id: int
    plan_uuid: str
    wave: int
    server_uuid: str
    server_name: str
    kind: MoveKind
    source_host: str
    dest_host: str | None
    gib: float
    state: MoveState
    migration_uuid: str | None
    request_id: str | None
    reason: str | None
    started_at: datetime | None
    finished_at: datetime | None


def add(tx: Transaction, plan_uuid: str, moves: Sequence[NewMove]) -> None:
    """Add planned moves to a plan."""
    for some in pieces(moves):
        rows = [
            {
                **{name: getattr(move, name) for name in NewMove.__dataclass_fields__},
                "kind": move.kind.value,
                "plan_uuid": plan_uuid,
                "state": MoveState.PLANNED.value,
            }
            for move in some
        ]
        tx.execute(sa.insert(t.plan_moves), rows)


def of_plan(connection: Connection, plan_uuid: str, states: Collection[MoveState] | None = None) -> list[PlanMove]:
    """Return the moves of a plan by waves. ``states``: only the moves with these states."""
    wanted = sa.select(t.plan_moves).where(_M.plan_uuid == plan_uuid)
    if states is not None:
        wanted = wanted.where(_M.state.in_([state.value for state in states]))
    return _read(connection, wanted.order_by(_M.wave, _M.id))


def next_of_wave(connection: Connection, plan_uuid: str, wave: int, most: int) -> list[PlanMove]:
    """Return the first ``most`` moves of a wave that have not begun."""
    wanted = sa.select(t.plan_moves).where(*_planned(plan_uuid), _M.wave == wave)
    return _read(connection, wanted.order_by(_M.id).limit(most))


def _read(connection: Connection, wanted: sa.Select[Any]) -> list[PlanMove]:
    rows = connection.execute(wanted).mappings()
    return [PlanMove(**{**row, "kind": MoveKind(row["kind"]), "state": MoveState(row["state"])}) for row in rows]


@dataclass(frozen=True, slots=True)
class Totals:
    """Numbers of the moves of a plan by state, the number of waves, and GiB in all and of moves that are done."""

    moves: Mapping[MoveState, int]
    waves: int
    gib: float
    gib_done: float


NO_MOVES = Totals({}, 0, 0.0, 0.0)


def totals(connection: Connection, plans: Collection[str]) -> dict[str, Totals]:
    """Return plan → its totals; plans without moves are absent."""
    last, gib = sa.func.max(_M.wave), sa.func.sum(_M.gib)
    found: dict[str, list[Any]] = {}
    for some in pieces(plans):
        wanted = sa.select(_M.plan_uuid, _M.state, sa.func.count().label("number"), last, gib)
        grouped = wanted.where(_M.plan_uuid.in_(some)).group_by(_M.plan_uuid, _M.state)
        for row in connection.execute(grouped):
            found.setdefault(row.plan_uuid, []).append(row)
    return {
        plan: Totals(
            {MoveState(row[1]): row[2] for row in rows},
            max(row[3] for row in rows) + 1,
            sum(row[4] for row in rows),
            sum(row[4] for row in rows if row[1] == MoveState.DONE.value),
        )
        for plan, rows in found.items()
    }


def begin(tx: Transaction, move: PlanMove, migration_uuid: str, request_id: str) -> None:
    """Record that a move has begun. Raises: ConcurrentUpdate if it has begun already, or is no longer planned."""
    values = {"state": MoveState.RUNNING.value, "migration_uuid": migration_uuid, "request_id": request_id}
    planned = sa.update(t.plan_moves).where(_M.id == move.id, _M.state == MoveState.PLANNED.value)
    if tx.execute(planned.values(started_at=tx.now, **values)).rowcount != 1:
        raise ConcurrentUpdate(f"The move of server {move.server_uuid} is no longer planned.")


def end(tx: Transaction, move: PlanMove, state: MoveState, reason: str | None = None) -> None:
    """Record the end of a move that is planned or running; a move that has ended already is unchanged."""
    present = _M.state.in_([MoveState.PLANNED.value, MoveState.RUNNING.value])
    values = {"state": state.value, "finished_at": tx.now, "reason": reason and reason[:_LONGEST_REASON]}
    tx.execute(sa.update(t.plan_moves).where(_M.id == move.id, present).values(values))


def cancel_planned(tx: Transaction, plan_uuid: str) -> None:
    """Record that the planned moves of a plan will not begin."""
    values = {"state": MoveState.CANCELLED.value, "finished_at": tx.now}
    tx.execute(sa.update(t.plan_moves).where(*_planned(plan_uuid)).values(values))


def remove_planned(tx: Transaction, plan_uuid: str) -> None:
    """Delete the planned moves of a plan."""
    tx.execute(sa.delete(t.plan_moves).where(*_planned(plan_uuid)))


def remove_all(tx: Transaction, plan_uuid: str) -> None:
    """Delete all moves of a plan."""
    tx.execute(sa.delete(t.plan_moves).where(_M.plan_uuid == plan_uuid))


def _planned(plan_uuid: str) -> tuple[sa.ColumnElement[bool], ...]:
    return _M.plan_uuid == plan_uuid, _M.state == MoveState.PLANNED.value
