# SPDX-License-Identifier: Apache-2.0
"""Saved plans of moves: their rows, and the control process that applies each.

A control process claims an active plan that no live process owns. Every later write of the process names it, so a
process whose plan was given to another process changes nothing.
"""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from kilonova.db import host_agents, plan_moves
from kilonova.db.core import tables as t
from kilonova.db.core.transaction import Transaction
from kilonova.db.plan_moves import NewMove
from kilonova.errors import ConcurrentUpdate, Conflict, NotFound
from kilonova.model.saved_plan import ACTIVE, FINAL, PlanKind, PlanState
from kilonova.records import dataclass

#: Number of saved plans: another one replaces the oldest plan that has ended.
MOST_PLANS = 200
#: Number of plans that are applied at the same time.
MOST_ACTIVE = 20
_LONGEST_MESSAGE = 1000
_P = t.plans.c
_ACTIVE = tuple(state.value for state in ACTIVE)
_FINAL = tuple(state.value for state in FINAL)
#: State that a user requests → the states from which it is reached.
_FROM: Mapping[PlanState, Collection[PlanState]] = {
    PlanState.RUNNING: (PlanState.READY, PlanState.PAUSED),
    PlanState.PAUSED: (PlanState.RUNNING,),
    PlanState.CANCELLING: (PlanState.RUNNING, PlanState.PAUSED),
    PlanState.CANCELLED: (PlanState.READY,),
}


class PlanLostError(ConcurrentUpdate):
    """The plan has another state than required, or another control process applies it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewPlan:
    """A plan to be saved. ``request``: what it was computed from; ``stays``: servers that it does not move; both JSON.

    ``seq``: number of the change that it is based on.
    """

    uuid: str
    kind: PlanKind
    project_id: str
    user_id: str
    request_id: str
    request: Any
    stays: Sequence[Mapping[str, Any]]
    seq: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRow:
    """A saved plan without its moves. ``owner``: the control process that applies it, or applied it last.

    ``replans``: how often the rest of it was computed again. ``job_uuid``: the job that computes the rest again now.
    ``message``: what the plan does, or why it ended.
    """

    id: int
    uuid: str
    kind: PlanKind
    state: PlanState
    project_id: str
    user_id: str
    request_id: str
    request: Any
    stays: Sequence[Mapping[str, Any]]
    seq: int
    owner: str | None
    replans: int
    job_uuid: str | None
    message: str
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None


def add(tx: Transaction, plan: NewPlan, moves: Sequence[NewMove], *, most: int = MOST_PLANS) -> None:
    """Save a plan. The oldest plans that have ended are removed if there are too many. Raises: Conflict."""
    surplus = int(tx.execute(sa.select(sa.func.count()).select_from(t.plans)).scalar_one()) - most + 1
    if surplus > 0:
        ended = sa.select(_P.uuid).where(_P.state.in_(_FINAL)).order_by(_P.id).limit(surplus)
        removed = tuple(tx.execute(ended).scalars())
        if len(removed) < surplus:
            raise Conflict(f"There are {most} saved plans, which is the limit. Delete some.")
        for uuid in removed:
            _remove(tx, uuid)
    row = {
        "uuid": plan.uuid,
        "kind": plan.kind.value,
        "state": PlanState.READY.value,
        "project_id": plan.project_id,
        "user_id": plan.user_id,
        "request_id": plan.request_id,
        "request": plan.request,
        "stays": list(plan.stays),
        "seq": plan.seq,
        "replans": 0,
        "message": "",
        "created_at": tx.now,
    }
    tx.execute(sa.insert(t.plans), row)
    plan_moves.add(tx, plan.uuid, moves)


def get(connection: Connection, uuid: str) -> PlanRow:
    """Return a plan. Raises: NotFound."""
    row = connection.execute(sa.select(t.plans).where(_P.uuid == uuid)).mappings().first()
    if row is None:
        raise NotFound(f"Plan {uuid} could not be found.")
    return _plan(row)


def list_page(
    connection: Connection, *, state: PlanState | None = None, limit: int = 1000, marker: str | None = None
) -> tuple[PlanRow, ...]:
    """Return one page of plans, newest first, after ``marker``. Raises: NotFound for an unknown marker."""
    wanted = sa.select(t.plans)
    if state is not None:
        wanted = wanted.where(_P.state == state.value)
    if marker is not None:
        wanted = wanted.where(_P.id < get(connection, marker).id)
    return tuple(map(_plan, connection.execute(wanted.order_by(_P.id.desc()).limit(limit)).mappings()))


def change_state(tx: Transaction, uuid: str, to: PlanState, *, most_active: int = MOST_ACTIVE) -> PlanRow:
    """Give a plan the state that a user requests, and return it. A plan that has this state already is unchanged.

    Raises: NotFound; Conflict if the plan has a state from which this state cannot be reached, or if too many plans
    are active.
    """
    plan = get(tx.connection, uuid)
    if plan.state is to:
        return plan
    if plan.state not in _FROM[to]:
        raise Conflict(f"Plan {uuid} is {plan.state.value}, so it cannot become {to.value}.")
    values: dict[str, Any] = {"state": to.value}
    if plan.state is PlanState.READY and to is PlanState.RUNNING:
        active = sa.select(sa.func.count()).select_from(t.plans).where(_P.state.in_(_ACTIVE))
        if int(tx.execute(active).scalar_one()) >= most_active:
            raise Conflict(f"{most_active} plans are being applied, which is the limit. Wait until one has ended.")
        values |= {"started_at": tx.now}
    if to.is_final:
        values |= {"finished_at": tx.now}
        plan_moves.cancel_planned(tx, uuid)
    tx.execute(sa.update(t.plans).where(_P.uuid == uuid).values(values))
    return get(tx.connection, uuid)


def cancel(tx: Transaction, uuid: str) -> PlanRow:
    """Cancel a plan and return it: at once if it was not applied yet, else when the moves that have begun have ended.

    Raises: NotFound; Conflict if the plan has ended otherwise.
    """
    state = get(tx.connection, uuid).state
    at_once = state in {PlanState.READY, PlanState.CANCELLED}
    return change_state(tx, uuid, PlanState.CANCELLED if at_once else PlanState.CANCELLING)


def remove(tx: Transaction, uuid: str) -> None:
    """Delete a plan with its moves. Raises: NotFound; Conflict while it is being applied."""
    plan = get(tx.connection, uuid)
    if plan.state.is_active:
        raise Conflict(f"Plan {uuid} is {plan.state.value}; cancel it first.")
    _remove(tx, uuid)


def _remove(tx: Transaction, uuid: str) -> None:
    plan_moves.remove_all(tx, uuid)
    tx.execute(sa.delete(t.plans).where(_P.uuid == uuid))


# --- for the control process that applies a plan ----------------------------------------------------------------------


def free(connection: Connection, now: datetime) -> tuple[str, ...]:
    """Return the active plans that no live control process applies. ``now``: database time."""
    wanted = sa.select(_P.uuid).where(_P.state.in_(_ACTIVE), _is_free(now))
    return tuple(connection.execute(wanted.order_by(_P.id)).scalars())


def claim(tx: Transaction, owner: str) -> int:
    """Make ``owner`` apply the active plans that no live control process applies; return their number."""
    taken = sa.update(t.plans).where(_P.state.in_(_ACTIVE), _is_free(tx.now)).values(owner=owner)
    return int(tx.execute(taken).rowcount)


def _is_free(now: datetime) -> sa.ColumnElement[bool]:
    return sa.or_(_P.owner.is_(None), _P.owner.not_in(host_agents.alive(now)))


def release(tx: Transaction, owner: str) -> None:
    """Let other control processes apply the plans of ``owner``, because it stops."""
    tx.execute(sa.update(t.plans).where(_P.owner == owner, _P.state.in_(_ACTIVE)).values(owner=None))


def owned(connection: Connection, owner: str) -> tuple[PlanRow, ...]:
    """Return the active plans that ``owner`` applies."""
    wanted = sa.select(t.plans).where(_P.owner == owner, _P.state.in_(_ACTIVE)).order_by(_P.id)
    return tuple(map(_plan, connection.execute(wanted).mappings()))


def drained_elsewhere(connection: Connection, uuid: str) -> frozenset[str]:
    """Return the hosts that other active plans than ``uuid`` empty."""
    wanted = sa.select(_P.request).where(_P.kind == PlanKind.DRAIN.value, _P.state.in_(_ACTIVE), _P.uuid != uuid)
    return frozenset(host for request in connection.execute(wanted).scalars() for host in request["hosts"])


def require(tx: Transaction, uuid: str, owner: str, states: Collection[PlanState] = ACTIVE) -> PlanRow:
    """Return a plan that ``owner`` applies and that has one of these states. Raises: PlanLostError."""
    row = tx.execute(sa.select(t.plans).where(_P.uuid == uuid)).mappings().first()
    if row is None or row["owner"] != owner or PlanState(row["state"]) not in states:
        raise PlanLostError(f"Plan {uuid} was changed meanwhile.")
    return _plan(row)


def tell(tx: Transaction, uuid: str, owner: str, message: str) -> None:
    """Store what a plan does. Raises: PlanLostError."""
    require(tx, uuid, owner)
    tx.execute(sa.update(t.plans).where(_P.uuid == uuid).values(message=message[:_LONGEST_MESSAGE]))


def replan(
    tx: Transaction,
    uuid: str,
    owner: str,
    moves: Sequence[NewMove],
    stays: Sequence[Mapping[str, Any]],
    seq: int,
    message: str,
) -> None:
    """Replace the moves of a running plan that have not begun. Raises: PlanLostError."""
    plan = require(tx, uuid, owner, {PlanState.RUNNING})
    plan_moves.remove_planned(tx, uuid)
    plan_moves.add(tx, uuid, moves)
    values = {
        "stays": list(stays),
        "seq": seq,
        "replans": plan.replans + 1,
        "message": message[:_LONGEST_MESSAGE],
        "job_uuid": None,
    }
    tx.execute(sa.update(t.plans).where(_P.uuid == uuid).values(values))


def await_job(tx: Transaction, uuid: str, owner: str, job_uuid: str, message: str) -> None:
    """Store which job computes the rest of a running plan again. Raises: PlanLostError."""
    require(tx, uuid, owner, {PlanState.RUNNING})
    values = {"job_uuid": job_uuid, "message": message[:_LONGEST_MESSAGE]}
    tx.execute(sa.update(t.plans).where(_P.uuid == uuid).values(values))


def finish(
    tx: Transaction, uuid: str, owner: str, state: PlanState, message: str, stays: Sequence[Mapping[str, Any]]
) -> None:
    """End a plan; moves that have not begun are cancelled. ``stays``: servers not moved. Raises: PlanLostError."""
    require(tx, uuid, owner, {PlanState.CANCELLING} if state is PlanState.CANCELLED else {PlanState.RUNNING})
    plan_moves.cancel_planned(tx, uuid)
    values = {
        "state": state.value,
        "stays": list(stays),
        "message": message[:_LONGEST_MESSAGE],
        "finished_at": tx.now,
    }
    tx.execute(sa.update(t.plans).where(_P.uuid == uuid).values(values))


def _plan(row: Any) -> PlanRow:
    return PlanRow(**{**row, "kind": PlanKind(row["kind"]), "state": PlanState(row["state"])})
