# SPDX-License-Identifier: Apache-2.0
"""The journal of workflows: one row per workflow, fenced by its owner and version on every change.

A workflow belongs to its owner, a control process, while that process has a valid lease (``host_agents``). Later, other
control processes may adopt the workflow.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import field, replace
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from kilonova.db.core import tables as t
from kilonova.db.core.prepared import Prepared, PreparedInsert, Sent
from kilonova.db.core.statements import ManyRows, pieces
from kilonova.db.core.transaction import Transaction
from kilonova.db.host_agents import alive
from kilonova.errors import ConcurrentUpdate, NotFound
from kilonova.model.instance import VmState
from kilonova.records import dataclass

_W, _P = t.workflows.c, t.processes.c
_LEADER = t.workflows.alias("leader")
_LED = sa.select(_LEADER.c.uuid).where(_LEADER.c.uuid == _W.batch_uuid)
_FINISH = sa.delete(t.workflows).where(
    _W.owner == sa.bindparam("owner"), sa.tuple_(_W.uuid, _W.version).in_(sa.bindparam("present", expanding=True))
)
_FINISH_ONE = Prepared(
    sa.delete(t.workflows).where(
        _W.uuid == sa.bindparam("uuid"), _W.owner == sa.bindparam("owner"), _W.version == sa.bindparam("version")
    )
)
_COLUMNS = tuple(column.name for column in t.workflows.c)
_OF_INSTANCE = Prepared(
    sa.select(t.workflows).where(_W.instance_uuid == sa.bindparam("instance_uuid")).order_by(_W.created_at)
)
#: Query for any workflow handed over to ``owner``; prepared because it runs several times a second.
_GIVEN = Prepared(
    sa.select(_W.uuid).where(_W.owner == sa.bindparam("owner"), _W.handed_over.is_(True)).limit(sa.literal_column("1"))
)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowRow:
    """A workflow at one of its steps, as stored.

    ``step``: the step that is running, or being undone if ``undoing``.
    ``attempt``: incremented at every start of a step, so that a late reply to an earlier start is recognised.
    ``version``: incremented at every change of the row; a writer with an older version cannot change the row.
    ``facts``: state of the steps, in the form of :mod:`kilonova.conductor.workflow_engine.facts`.
    ``failure``: why the workflow is being undone or is stuck. ``interrupt``: the operation for which the workflow must
    end, or end sooner.
    ``tries``: number of failures of the present step. ``stuck``: the workflow waits for an operator.
    ``waiting``: the workflow starts when the other workflows of its instance have ended.
    ``awaited_host``: the absent host without which the present step can be neither done nor undone, else None.
    ``awaited_since``: start of the wait for that host.
    ``batch_uuid``: the batch workflow of the whole request, which directs this workflow as long as the batch workflow
    exists. ``since``: start of the present step. ``created_at``: start of the workflow.
    """

    uuid: str
    kind: str
    instance_uuid: str
    reservation_id: str
    request_id: str
    step: str
    attempt: int = 0
    version: int = 0
    facts: Mapping[str, Any] = field(default_factory=dict)
    undoing: bool = False
    failure: Mapping[str, Any] | None = None
    interrupt: str | None = None
    tries: int = 0
    stuck: bool = False
    waiting: bool = False
    awaited_host: str | None = None
    awaited_since: datetime | None = None
    batch_uuid: str | None = None
    since: datetime | None = None
    owner: str = ""
    created_at: datetime | None = None

    @property
    def awaits_host(self) -> bool:
        """Whether the workflow waits for an absent host."""
        return self.awaited_host is not None


_STORED = tuple(name for name in WorkflowRow.__dataclass_fields__ if name not in {"since", "owner", "created_at"})
_INSERT = PreparedInsert(t.workflows)
#: Columns that the steps of a workflow change. Only :func:`change` writes interrupts.
_CHANGING = (
    *("step", "attempt", "facts", "undoing", "failure", "tries", "stuck", "waiting"),
    *("awaited_host", "awaited_since"),
)
#: Interrupt that the release before cannot read → the interrupt that is stored for its processes.
_KNOWN_BEFORE = {"soft-delete": "delete"}
_MOVE = ManyRows(
    {name: _W[name].type for name in ("uuid", "owner", "version", *_CHANGING)},
    lambda given: (
        sa.update(t.workflows)
        .where(_W.uuid == given["uuid"], _W.owner == given["owner"], _W.version == given["version"] - 1)
        .values(
            {name: given[name] for name in ("version", *_CHANGING)}
            | {"updated_at": sa.bindparam("now", type_=t.Time), "handed_over": False}
        )
    ),
)


def insert(tx: Transaction, workflows: Sequence[WorkflowRow], owner: str) -> None:
    """Insert new workflows."""
    rows = [
        {name: getattr(workflow, name) for name in _STORED}
        | {"owner": owner, "handed_over": False, "created_at": tx.now}
        for workflow in workflows
    ]
    _INSERT.run(tx.connection, rows)


def move(tx: Transaction, workflow: WorkflowRow, owner: str) -> None:
    """Store the next state of a workflow, except for its interrupt.

    Raises: ConcurrentUpdate if its owner or version has changed.
    """
    move_all(tx, [(workflow, owner)])


def move_all(tx: Transaction, workflows: Sequence[tuple[WorkflowRow, str]]) -> None:
    """Store the next states of workflows, given as (workflow, expected owner) pairs.

    Raises: ConcurrentUpdate if the owner or version of any of them has changed.
    """
    if moved(tx, workflows) != len(workflows):
        raise ConcurrentUpdate("A workflow has another owner or is gone.")


def moved(tx: Transaction, workflows: Sequence[tuple[WorkflowRow, str]]) -> int:
    """Store the next states of those workflows whose owner and version are unchanged; return the number of these."""
    return send_moves(tx, workflows).count() if workflows else 0


def send_moves(tx: Transaction, workflows: Sequence[tuple[WorkflowRow, str]]) -> Sent:
    """Send the statement of :func:`moved` for at least one workflow."""
    rows = [
        {name: getattr(workflow, name) for name in ("uuid", "version", *_CHANGING)} | {"owner": owner}
        for workflow, owner in workflows
    ]
    return _MOVE.send(tx, rows, now=tx.now)


def finish(tx: Transaction, workflow: WorkflowRow, owner: str) -> None:
    """Delete a completed workflow. Raises: ConcurrentUpdate if its owner or version has changed."""
    finish_all(tx, [workflow], owner)


def finish_all(tx: Transaction, flows: Sequence[WorkflowRow], owner: str) -> None:
    """Delete completed workflows. Raises: ConcurrentUpdate if the owner or version of any of them has changed."""
    if len(flows) == 1:
        (flow,) = flows
        if _FINISH_ONE.run(tx.connection, uuid=flow.uuid, owner=owner, version=flow.version) != 1:
            raise ConcurrentUpdate(f"Workflow {flow.uuid} has another owner or is gone.")
        return
    for some in pieces(flows):
        present = [(flow.uuid, flow.version) for flow in some]
        if tx.execute(_FINISH, {"owner": owner, "present": present}).rowcount != len(present):
            raise ConcurrentUpdate("A workflow has another owner or is gone.")


def finish_present(tx: Transaction, flows: Sequence[WorkflowRow], owner: str) -> tuple[WorkflowRow, ...]:
    """Delete the workflows among ``flows`` whose owner and version are unchanged, and return them."""
    by_uuid = {flow.uuid: flow for flow in flows}
    ours = sa.select(_W.uuid, _W.version).where(_W.uuid.in_(list(by_uuid)), _W.owner == owner)
    present = [by_uuid[row.uuid] for row in tx.execute(ours) if by_uuid[row.uuid].version == row.version]
    if present:
        finish_all(tx, present, owner)
    return tuple(present)


def require(tx: Transaction, workflow: WorkflowRow, owner: str) -> None:
    """Check that owner and version of a workflow are unchanged. Raises: ConcurrentUpdate."""
    fence = sa.and_(_W.uuid == workflow.uuid, _W.owner == owner, _W.version == workflow.version)
    if tx.execute(sa.select(_W.uuid).where(fence)).first() is None:
        raise ConcurrentUpdate(f"Workflow {workflow.uuid} has another owner or is gone.")


def of_instance(connection: Connection, instance_uuid: str) -> tuple[WorkflowRow, ...]:
    """Return the workflows of an instance, oldest first."""
    rows = _OF_INSTANCE.rows(connection, instance_uuid=instance_uuid)
    return tuple(_workflow(dict(zip(_COLUMNS, row, strict=True))) for row in rows)


def servers_among(connection: Connection, instance_uuids: Collection[str]) -> frozenset[str]:
    """Return those of these servers that have a workflow."""
    found: set[str] = set()
    for some in pieces(instance_uuids):
        found.update(connection.execute(sa.select(_W.instance_uuid).where(_W.instance_uuid.in_(some))).scalars())
    return frozenset(found)


def change(tx: Transaction, workflow: WorkflowRow, *, heir: bool) -> None:
    """Store the next version of a workflow of any owner, and its interrupt.

    ``heir``: whether to notify the owner of the change. Raises: ConcurrentUpdate if its version has changed.
    """
    values = {name: getattr(workflow, name) for name in ("version", *_CHANGING)} | _interrupts(workflow.interrupt)
    fence = sa.and_(_W.uuid == workflow.uuid, _W.version == workflow.version - 1)
    changed = sa.update(t.workflows).where(fence).values(**values, handed_over=heir, updated_at=tx.now)
    if tx.execute(changed).rowcount == 0:
        raise ConcurrentUpdate(f"Workflow {workflow.uuid} is gone or was changed meanwhile.")


def drop(tx: Transaction, uuids: Collection[str]) -> None:
    """Delete workflows of any owner. A process that still runs such a workflow fails at the next write to its row."""
    tx.execute(sa.delete(t.workflows).where(_W.uuid.in_(list(uuids))))


def release_waiting(tx: Transaction, instance_uuid: str, owner: str) -> tuple[WorkflowRow, ...]:
    """Release the waiting workflows of an instance if its other workflows have all ended, and return them.

    A stuck workflow has not ended. The owner of each returned workflow has to start the workflow.
    """
    rows = of_instance(tx.connection, instance_uuid)
    if not rows or not all(row.waiting for row in rows):
        return ()
    begun = [replace(row, waiting=False, version=row.version + 1) for row in rows]
    for row in begun:
        change(tx, row, heir=row.owner != owner)
    return tuple(begun)


#: Maximum number of workflows that get a new owner in one transaction.
_TAKEN_TOGETHER = 1000


def adopt(tx: Transaction, owner: str, *, everything: bool) -> tuple[WorkflowRow, ...]:
    """Take over the oldest workflows of processes without a valid lease, and return them.

    ``everything``: take over the workflows of all other processes, because none of these processes can be alive.
    Members of a batch in progress are left to :func:`take_members`. At most :data:`_TAKEN_TOGETHER` workflows are taken
    over: call this function again until it returns none.
    """
    condition = sa.and_(_W.owner != owner, ~_LED.exists())
    if not everything:
        condition = sa.and_(condition, ~alive(tx.now).where(_P.uuid == _W.owner).exists())
    oldest_first = sa.select(t.workflows).where(condition).order_by(_W.created_at, _W.uuid).limit(_TAKEN_TOGETHER)
    rows = tx.execute(oldest_first).mappings().all()
    _give(tx, [row["uuid"] for row in rows], owner)
    return tuple(map(_workflow, rows))


def _give(tx: Transaction, uuids: Sequence[str], owner: str) -> None:
    for part in pieces(uuids):
        some = _W.uuid.in_(part)
        tx.execute(sa.update(t.workflows).where(some).values(owner=owner, handed_over=False))


def take_members(tx: Transaction, leader: str, owner: str, *, everything: bool) -> int:
    """Take over members of a batch from owners without a valid lease.

    Returns the number of these members; call again until it is 0.
    """
    condition = sa.and_(_W.batch_uuid == leader, _W.owner != owner)
    if not everything:
        condition = sa.and_(condition, ~alive(tx.now).where(_P.uuid == _W.owner).exists())
    uuids = list(tx.execute(sa.select(_W.uuid).where(condition).limit(_TAKEN_TOGETHER)).scalars())
    _give(tx, uuids, owner)
    return len(uuids)


def members(
    connection: Connection,
    leader: str,
    owner: str,
    *,
    limit: int,
    step: str | None = None,
    after: str = "",
    interrupted: bool = False,
) -> tuple[WorkflowRow, ...]:
    """Return up to ``limit`` workflows of a batch that ``owner`` runs, sorted by uuid.

    ``leader``: the batch workflow. ``step``: only workflows at this step. ``after``: only uuids above this one.
    ``interrupted``: return only workflows with an interrupt; otherwise only workflows without one.
    """
    wanted = sa.select(t.workflows).where(
        _W.batch_uuid == leader,
        _W.owner == owner,
        _W.uuid > after,
        _W.interrupt.is_not(None) if interrupted else _W.interrupt.is_(None),
    )
    if step is not None:
        wanted = wanted.where(_W.step == step)
    return tuple(map(_workflow, connection.execute(wanted.order_by(_W.uuid).limit(limit)).mappings()))


def count_members(connection: Connection, leader: str, owner: str, step: str) -> int:
    """Return the number of workflows of a batch that are at ``step`` and that ``owner`` runs."""
    counted = sa.select(sa.func.count()).where(_W.batch_uuid == leader, _W.owner == owner, _W.step == step)
    return int(connection.execute(counted.select_from(t.workflows)).scalar_one())


def hand_over(tx: Transaction, workflow: WorkflowRow, owner: str, heir: str) -> None:
    """Give a workflow to another process unchanged. Raises: ConcurrentUpdate if its owner or version has changed."""
    fence = sa.and_(_W.uuid == workflow.uuid, _W.owner == owner, _W.version == workflow.version)
    given = {"owner": heir, "handed_over": True}
    if tx.execute(sa.update(t.workflows).where(fence).values(given)).rowcount == 0:
        raise ConcurrentUpdate(f"Workflow {workflow.uuid} has another owner or is gone.")


def is_heir(connection: Connection, owner: str) -> bool:
    """Return whether other processes have handed workflows over to ``owner``, or have changed its workflows."""
    return bool(_GIVEN.rows(connection, owner=owner))


def inherit(tx: Transaction, owner: str) -> tuple[WorkflowRow, ...]:
    """Return the workflows of ``owner`` that other processes have handed over or changed, and acknowledge them."""
    given = sa.and_(_W.owner == owner, _W.handed_over.is_(True))
    rows = tx.execute(sa.select(t.workflows).where(given).order_by(_W.created_at, _W.uuid)).mappings().all()
    tx.execute(sa.update(t.workflows).where(given).values(handed_over=False))
    return tuple(map(_workflow, rows))


def get(connection: Connection, uuid: str, owner: str | None = None) -> WorkflowRow | None:
    """Return a workflow, or None. ``owner``: return the workflow only if this process runs it."""
    wanted = sa.select(t.workflows).where(_W.uuid == uuid)
    if owner is not None:
        wanted = wanted.where(_W.owner == owner)
    row = connection.execute(wanted).mappings().first()
    return None if row is None else _workflow(row)


def of_owner(connection: Connection, owner: str) -> tuple[WorkflowRow, ...]:
    """Return the workflows that ``owner`` runs, except for members of a batch whose batch workflow still exists."""
    own = sa.select(t.workflows).where(_W.owner == owner, ~_LED.exists()).order_by(_W.created_at, _W.uuid)
    return tuple(map(_workflow, connection.execute(own).mappings()))


def list_page(
    connection: Connection,
    *,
    kind: str | None = None,
    stuck: bool | None = None,
    waiting: bool | None = None,
    instance_uuid: str | None = None,
    limit: int = 1000,
    marker: str | None = None,
) -> tuple[WorkflowRow, ...]:
    """Return one page of workflows, oldest first, after ``marker``.

    ``waiting``: True selects the workflows that wait for an absent host or for other workflows of their server, False
    selects the workflows that wait for neither. Raises: NotFound for an unknown marker.
    """
    wanted = sa.select(t.workflows)
    if waiting is not None:
        waits = sa.or_(_W.waiting, _W.awaited_host.is_not(None))
        wanted = wanted.where(waits if waiting else sa.not_(waits))
    for column, value in ((_W.kind, kind), (_W.stuck, stuck), (_W.instance_uuid, instance_uuid)):
        if value is not None:
            wanted = wanted.where(column == value)
    if marker is not None:
        begun = connection.execute(sa.select(_W.created_at).where(_W.uuid == marker)).scalar()
        if begun is None:
            raise NotFound(f"Workflow {marker} could not be found.")
        later = sa.or_(_W.created_at > begun, sa.and_(_W.created_at == begun, _W.uuid > marker))
        wanted = wanted.where(later)
    page = wanted.order_by(_W.created_at, _W.uuid).limit(limit)
    return tuple(map(_workflow, connection.execute(page).mappings()))


@dataclass(frozen=True, slots=True)
class Count:
    """The number of workflows at one step in one state, and the start of the oldest of them."""

    kind: str
    step: str
    undoing: bool
    stuck: bool
    waiting: bool
    awaits_host: bool
    workflows: int
    oldest: datetime


def state_of(counted: Count | WorkflowRow) -> str:
    """Return the state of a workflow, or of all workflows that a ``Count`` counts.

    It is ``stuck``, ``waiting`` (for other workflows), ``awaiting-host``, or ``undoing`` or ``doing`` (the step).
    """
    if counted.awaits_host and not counted.stuck:
        return "awaiting-host"
    return next((state for state in ("stuck", "waiting", "undoing") if getattr(counted, state)), "doing")


def builds_before(connection: Connection, kind: str, moment: datetime, limit: int) -> tuple[WorkflowRow, ...]:
    """Return up to ``limit`` workflows of one kind that started before ``moment``, oldest first.

    Only workflows without an interrupt, whose servers are still being built, are returned.
    """
    building = t.instances.c.deleted.is_(False), t.instances.c.vm_state == VmState.BUILDING.value
    due = (
        sa.select(t.workflows)
        .join(t.instances, t.instances.c.uuid == _W.instance_uuid)
        .where(_W.kind == kind, _W.created_at < moment, _W.interrupt.is_(None), *building)
        .order_by(_W.created_at, _W.uuid)
    )
    return tuple(map(_workflow, connection.execute(due.limit(limit)).mappings()))


def counts(connection: Connection) -> tuple[Count, ...]:
    """Count workflows by kind, step and state."""
    by = (_W.kind, _W.step, _W.undoing, _W.stuck, _W.waiting, _W.awaited_host.is_not(None).label("awaits_host"))
    rows = connection.execute(sa.select(*by, sa.func.count(), sa.func.min(_W.created_at)).group_by(*by))
    return tuple(Count(*row) for row in rows)


def awaited_hosts(connection: Connection) -> dict[str, int]:
    """Return absent host → number of workflows that wait for it, sorted by host; stuck workflows are not counted."""
    waits = _W.awaited_host.is_not(None), _W.stuck.is_(False)
    counted = sa.select(_W.awaited_host, sa.func.count()).where(*waits).group_by(_W.awaited_host)
    rows = connection.execute(counted.order_by(_W.awaited_host))
    return {row[0]: row[1] for row in rows}


def oldest(connection: Connection) -> datetime | None:
    """Return the start of the oldest workflow, or None."""
    moment: datetime | None = connection.execute(sa.select(sa.func.min(_W.created_at))).scalar()
    return moment


def _interrupts(interrupt: str | None) -> dict[str, str | None]:
    """Return the columns in which an interrupt is stored."""
    known_before = _KNOWN_BEFORE.get(interrupt or "")
    return {"interrupt": known_before or interrupt, "exact_interrupt": interrupt if known_before else None}


def _exact_interrupt(row: Any) -> str | None:
    """Return the stored interrupt. A process of the release before may have replaced it since by a stronger one."""
    interrupt, exact = row["interrupt"], row["exact_interrupt"]
    known: str | None = interrupt if exact is None or _KNOWN_BEFORE.get(exact) != interrupt else exact
    return known


def _workflow(row: Any) -> WorkflowRow:
    since = row["updated_at"] or row["created_at"]
    stored = {name: row[name] for name in _STORED} | {"interrupt": _exact_interrupt(row)}
    return WorkflowRow(**stored, since=since, owner=row["owner"], created_at=row["created_at"])
