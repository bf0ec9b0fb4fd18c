# SPDX-License-Identifier: Apache-2.0
"""The journal of long operations: one row a workflow, fenced by its owner on every step.

A workflow belongs to its owner for as long as that process has its lease (``host_agents``); then others may adopt it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from kilonova.db import tables as t
from kilonova.db.host_agents import alive
from kilonova.db.transaction import Transaction
from kilonova.errors import ConcurrentUpdate

_W, _P = t.workflows.c, t.processes.c
_LEADER = t.workflows.alias("leader")
_LED = sa.select(_LEADER.c.uuid).where(_LEADER.c.uuid == _W.batch_uuid)
_INSERT = sa.insert(t.workflows)
_FINISH = sa.delete(t.workflows).where(
    _W.owner == sa.bindparam("owner"), sa.tuple_(_W.uuid, _W.attempt).in_(sa.bindparam("present", expanding=True))
)


@dataclass(frozen=True, slots=True)
class Workflow:
    """A long operation at one of its steps.

    ``step``: name of the step that is running, or being undone when ``undoing``.
    ``attempt``: rises with every step that starts, so that a late reply of an earlier one is recognised.
    ``body``: what the steps remember (JSON).
    ``batch_uuid``: the workflow of the whole request; while that one is there, this one only does what it says.
    """

    uuid: str
    kind: str
    instance_uuid: str
    reservation_id: str
    request_id: str
    step: str
    attempt: int = 0
    body: dict[str, Any] = field(default_factory=dict)
    batch_uuid: str | None = None

    @property
    def undoing(self) -> bool:
        return bool(self.body.get("undoing"))


def insert(tx: Transaction, workflows: Sequence[Workflow], owner: str) -> None:
    """Journal new workflows."""
    rows = [
        {name: getattr(workflow, name) for name in Workflow.__dataclass_fields__}
        | {"owner": owner, "handed_over": False, "created_at": tx.now}
        for workflow in workflows
    ]
    tx.execute(_INSERT, rows)


def move(tx: Transaction, workflow: Workflow, owner: str) -> None:
    """Journal the next step of a workflow. Raises: ConcurrentUpdate when it is no longer ours, or moved on already."""
    values = {"step": workflow.step, "attempt": workflow.attempt, "body": workflow.body, "updated_at": tx.now}
    fence = sa.and_(_W.uuid == workflow.uuid, _W.owner == owner, _W.attempt == workflow.attempt - 1)
    if tx.execute(sa.update(t.workflows).where(fence).values(values)).rowcount == 0:
        raise ConcurrentUpdate(f"Workflow {workflow.uuid} has another owner or is gone.")


def finish(tx: Transaction, workflow: Workflow, owner: str) -> None:
    """Remove a workflow that is done. Raises: ConcurrentUpdate when it is no longer ours, or moved on already."""
    finish_all(tx, [workflow], owner)


def finish_all(tx: Transaction, flows: Sequence[Workflow], owner: str) -> None:
    """Remove workflows that are done, all of them. Raises: ConcurrentUpdate when one is no longer ours."""
    present = [(flow.uuid, flow.attempt) for flow in flows]
    if tx.execute(_FINISH, {"owner": owner, "present": present}).rowcount != len(flows):
        raise ConcurrentUpdate("A workflow has another owner or is gone.")


def finish_present(tx: Transaction, flows: Sequence[Workflow], owner: str) -> tuple[Workflow, ...]:
    """Remove those of the given workflows that are still ours and at the same step, and return them."""
    by_uuid = {flow.uuid: flow for flow in flows}
    ours = sa.select(_W.uuid, _W.attempt).where(_W.uuid.in_(list(by_uuid)), _W.owner == owner)
    present = [by_uuid[row.uuid] for row in tx.execute(ours) if by_uuid[row.uuid].attempt == row.attempt]
    if present:
        finish_all(tx, present, owner)
    return tuple(present)


def require(tx: Transaction, workflow: Workflow, owner: str) -> None:
    """Raise ConcurrentUpdate when a workflow is no longer ours, or moved on already."""
    fence = sa.and_(_W.uuid == workflow.uuid, _W.owner == owner, _W.attempt == workflow.attempt)
    if tx.execute(sa.select(_W.uuid).where(fence)).first() is None:
        raise ConcurrentUpdate(f"Workflow {workflow.uuid} has another owner or is gone.")


def cancel_for_instance(tx: Transaction, instance_uuid: str) -> None:
    """Remove every workflow of an instance; whoever runs one finds its fence gone."""
    tx.execute(sa.delete(t.workflows).where(_W.instance_uuid == instance_uuid))


def adopt(tx: Transaction, owner: str, *, everything: bool, limit: int = 1000) -> tuple[Workflow, ...]:
    """Take over the oldest workflows of processes without a lease (of all, when no other process can be alive).

    The workflows of a batch that is still under way come with it (:func:`take_members`).
    Returns at most ``limit`` of them: ask again until there are none left.
    """
    condition = sa.and_(_W.owner != owner, ~_LED.exists())
    if not everything:
        condition = sa.and_(condition, ~alive(tx.now).where(_P.uuid == _W.owner).exists())
    oldest_first = sa.select(t.workflows).where(condition).order_by(_W.created_at, _W.uuid).limit(limit)
    rows = tx.execute(oldest_first).mappings().all()
    _give(tx, [row["uuid"] for row in rows], owner)
    return tuple(_workflow(row) for row in rows)


def _give(tx: Transaction, uuids: Sequence[str], owner: str) -> None:
    for start in range(0, len(uuids), 500):
        some = _W.uuid.in_(list(uuids[start : start + 500]))
        tx.execute(sa.update(t.workflows).where(some).values(owner=owner, handed_over=False))


def take_members(tx: Transaction, leader: str, owner: str, *, everything: bool, limit: int = 1000) -> int:
    """Take over workflows of a batch whose owner has no lease; return how many. Ask again until there are none left."""
    condition = sa.and_(_W.batch_uuid == leader, _W.owner != owner)
    if not everything:
        condition = sa.and_(condition, ~alive(tx.now).where(_P.uuid == _W.owner).exists())
    uuids = list(tx.execute(sa.select(_W.uuid).where(condition).limit(limit)).scalars())
    _give(tx, uuids, owner)
    return len(uuids)


def members(
    connection: Connection, leader: str, owner: str, *, limit: int, step: str | None = None, after: str = ""
) -> tuple[Workflow, ...]:
    """Return the workflows of a batch that ``owner`` runs by uuid, those that come ``after`` one, or are at a step."""
    wanted = sa.select(t.workflows).where(_W.batch_uuid == leader, _W.owner == owner, _W.uuid > after)
    if step is not None:
        wanted = wanted.where(_W.step == step)
    return tuple(map(_workflow, connection.execute(wanted.order_by(_W.uuid).limit(limit)).mappings()))


def count_members(connection: Connection, leader: str, owner: str, step: str) -> int:
    """Return how many workflows of a batch are at a step."""
    counted = sa.select(sa.func.count()).where(_W.batch_uuid == leader, _W.owner == owner, _W.step == step)
    return int(connection.execute(counted.select_from(t.workflows)).scalar_one())


def hand_over(tx: Transaction, workflow: Workflow, owner: str, heir: str) -> None:
    """Give a workflow to another process as it is. Raises: ConcurrentUpdate when it is no longer ours, or moved on."""
    fence = sa.and_(_W.uuid == workflow.uuid, _W.owner == owner, _W.attempt == workflow.attempt)
    given = {"owner": heir, "handed_over": True}
    if tx.execute(sa.update(t.workflows).where(fence).values(given)).rowcount == 0:
        raise ConcurrentUpdate(f"Workflow {workflow.uuid} has another owner or is gone.")


def is_heir(connection: Connection, owner: str) -> bool:
    """Return whether somebody handed a workflow over to ``owner``."""
    waiting = sa.select(_W.uuid).where(_W.owner == owner, _W.handed_over.is_(True)).limit(1)
    return connection.execute(waiting).first() is not None


def inherit(tx: Transaction, owner: str) -> tuple[Workflow, ...]:
    """Return the workflows that were handed over to ``owner`` and note that it has them."""
    given = sa.and_(_W.owner == owner, _W.handed_over.is_(True))
    rows = tx.execute(sa.select(t.workflows).where(given).order_by(_W.created_at, _W.uuid)).mappings().all()
    tx.execute(sa.update(t.workflows).where(given).values(handed_over=False))
    return tuple(_workflow(row) for row in rows)


def get(connection: Connection, uuid: str, owner: str) -> Workflow | None:
    """Return a workflow that ``owner`` runs, or None."""
    row = connection.execute(sa.select(t.workflows).where(_W.uuid == uuid, _W.owner == owner)).mappings().first()
    return None if row is None else _workflow(row)


def of_owner(connection: Connection, owner: str) -> tuple[Workflow, ...]:
    """Return the workflows that ``owner`` runs, but for those that a batch leads."""
    own = sa.select(t.workflows).where(_W.owner == owner, ~_LED.exists()).order_by(_W.created_at, _W.uuid)
    return tuple(map(_workflow, connection.execute(own).mappings()))


def oldest(connection: Connection) -> datetime | None:
    """Return when the oldest unfinished workflow began."""
    moment: datetime | None = connection.execute(sa.select(sa.func.min(_W.created_at))).scalar()
    return moment


def _workflow(row: Any) -> Workflow:
    return Workflow(**{name: row[name] for name in Workflow.__dataclass_fields__})
