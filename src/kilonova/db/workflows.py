# SPDX-License-Identifier: Apache-2.0
"""The journal of long operations: one row a workflow, fenced by its owner on every step."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from kilonova.db import tables as t
from kilonova.db.transaction import Transaction
from kilonova.errors import ConcurrentUpdate

LEASE = timedelta(seconds=60)
_W = t.workflows.c
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
    """

    uuid: str
    kind: str
    instance_uuid: str
    reservation_id: str
    request_id: str
    step: str
    attempt: int = 0
    body: dict[str, Any] = field(default_factory=dict)

    @property
    def undoing(self) -> bool:
        return bool(self.body.get("undoing"))


def insert(tx: Transaction, workflows: Sequence[Workflow], owner: str) -> None:
    """Journal new workflows."""
    lease = tx.now + LEASE
    rows = [
        {name: getattr(workflow, name) for name in Workflow.__dataclass_fields__}
        | {"owner": owner, "lease_until": lease, "handed_over": False, "created_at": tx.now}
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


def cancel_for_instance(tx: Transaction, instance_uuid: str) -> None:
    """Remove every workflow of an instance; whoever runs one finds its fence gone."""
    tx.execute(sa.delete(t.workflows).where(_W.instance_uuid == instance_uuid))


def adopt(tx: Transaction, owner: str, *, everything: bool) -> tuple[Workflow, ...]:
    """Take over workflows whose lease ran out (all of them when no other process can be alive)."""
    condition = _W.owner != owner
    if not everything:
        condition = sa.and_(condition, _W.lease_until < tx.now)
    rows = tx.execute(sa.select(t.workflows).where(condition).order_by(_W.created_at, _W.uuid)).mappings().all()
    adopted = []
    for row in rows:
        fence = sa.and_(_W.uuid == row["uuid"], _W.owner == row["owner"], _W.lease_until == row["lease_until"])
        mine = {"owner": owner, "lease_until": tx.now + LEASE, "handed_over": False}
        if tx.execute(sa.update(t.workflows).where(fence).values(mine)).rowcount:
            adopted.append(_workflow(row))
    return tuple(adopted)


def hand_over(tx: Transaction, workflow: Workflow, owner: str, heir: str) -> None:
    """Give a workflow to another process as it is. Raises: ConcurrentUpdate when it is no longer ours, or moved on."""
    fence = sa.and_(_W.uuid == workflow.uuid, _W.owner == owner, _W.attempt == workflow.attempt)
    given = {"owner": heir, "lease_until": tx.now + LEASE, "handed_over": True}
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
    tx.execute(sa.update(t.workflows).where(given).values(handed_over=False, lease_until=tx.now + LEASE))
    return tuple(_workflow(row) for row in rows)


def renew(tx: Transaction, owner: str) -> None:
    """Prolong the lease of every workflow of ``owner``."""
    tx.execute(sa.update(t.workflows).where(_W.owner == owner).values(lease_until=tx.now + LEASE))


def get(connection: Connection, uuid: str, owner: str) -> Workflow | None:
    """Return a workflow that ``owner`` runs, or None."""
    row = connection.execute(sa.select(t.workflows).where(_W.uuid == uuid, _W.owner == owner)).mappings().first()
    return None if row is None else _workflow(row)


def oldest(connection: Connection) -> datetime | None:
    """Return when the oldest unfinished workflow began."""
    moment: datetime | None = connection.execute(sa.select(sa.func.min(_W.created_at))).scalar()
    return moment


def _workflow(row: Any) -> Workflow:
    return Workflow(**{name: row[name] for name in Workflow.__dataclass_fields__})
