# SPDX-License-Identifier: Apache-2.0
"""Jobs: their queue, which all control processes share, their progress and their results.

A control process claims queued jobs in the order of their creation. Every later write of the process names it and the
attempt, so a process whose job was given to another process changes nothing.
"""

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from kilonova.db import host_agents
from kilonova.db.core import tables as t
from kilonova.db.core.transaction import Transaction
from kilonova.errors import Conflict, NotFound
from kilonova.model.job import UNFINISHED, JobState
from kilonova.records import dataclass

#: Number of control processes that may die under a job before it fails.
MOST_ATTEMPTS = 2
_LONGEST_MESSAGE, _LONGEST_FAILURE = 255, 1000
_TRIMMED_TOGETHER = 500
_J = t.jobs.c
_SHOWN = [column for column in t.jobs.c if column.name not in {"id", "prepared", "result"}]
_UNFINISHED = tuple(state.value for state in UNFINISHED)
_LOST = "The control process that ran the job has ended, as has the one before it."


class QueueFull(Conflict):
    """The limit of unfinished jobs, of the project or of the cloud, is reached."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewJob:
    """A job to be queued. ``parameters``: as requested. ``prepared``: as the job's function gets them; both JSON."""

    uuid: str
    kind: str
    project_id: str
    user_id: str
    request_id: str
    parameters: Any
    prepared: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRow:
    """A job without its result. ``progress``: from 0 to 1, ``message``: what the job is doing. Times in UTC.

    ``owner``: the control process that runs it, or ran it last. ``attempt``: how often a process has begun it.
    """

    uuid: str
    kind: str
    state: JobState
    project_id: str
    user_id: str
    request_id: str
    parameters: Any
    progress: float
    message: str
    owner: str | None
    attempt: int
    is_cancelled: bool
    failure: str | None
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None


@dataclass(frozen=True, slots=True)
class ClaimedJob:
    """A job that a control process has begun. ``prepared``: the parameters of the job's function."""

    uuid: str
    kind: str
    attempt: int
    prepared: Any


def add(tx: Transaction, job: NewJob, *, most: int, most_of_project: int) -> None:
    """Queue a job. Raises: QueueFull, if the cloud has ``most`` unfinished jobs, or the project ``most_of_project``."""
    counts: Mapping[str, int] = dict(
        tx.execute(
            sa.select(_J.project_id, sa.func.count()).where(_J.state.in_(_UNFINISHED)).group_by(_J.project_id)
        ).all()  # type: ignore[arg-type]
    )
    if counts.get(job.project_id, 0) >= most_of_project:
        raise QueueFull(f"The project has {most_of_project} unfinished jobs already, which is the limit.")
    if sum(counts.values()) >= most:
        raise QueueFull(f"The cloud has {most} unfinished jobs already, which is the limit.")
    row = {
        "uuid": job.uuid,
        "kind": job.kind,
        "state": JobState.QUEUED.value,
        "project_id": job.project_id,
        "user_id": job.user_id,
        "request_id": job.request_id,
        "parameters": job.parameters,
        "prepared": job.prepared,
        "progress": 0.0,
        "message": "",
        "attempt": 0,
        "is_cancelled": False,
        "created_at": tx.now,
    }
    tx.execute(sa.insert(t.jobs), row)


def get(connection: Connection, uuid: str) -> JobRow:
    """Return a job. Raises: NotFound."""
    row = connection.execute(sa.select(*_SHOWN).where(_J.uuid == uuid)).mappings().first()
    if row is None:
        raise NotFound(f"Job {uuid} could not be found.")
    return _job(row)


def result_of(connection: Connection, uuid: str) -> bytes | None:
    """Return the compressed JSON of a job's result; None if the job has none."""
    found: bytes | None = connection.execute(sa.select(_J.result).where(_J.uuid == uuid)).scalar()
    return found


def prepared_of(connection: Connection, uuid: str) -> Any:
    """Return the parameters of a job's function. Raises: NotFound."""
    row = connection.execute(sa.select(_J.prepared).where(_J.uuid == uuid)).first()
    if row is None:
        raise NotFound(f"Job {uuid} could not be found.")
    return row.prepared


def list_page(
    connection: Connection,
    *,
    kind: str | None = None,
    state: JobState | None = None,
    limit: int = 1000,
    marker: str | None = None,
) -> tuple[JobRow, ...]:
    """Return one page of jobs, newest first, after ``marker``. Raises: NotFound for an unknown marker."""
    wanted = sa.select(*_SHOWN)
    if kind is not None:
        wanted = wanted.where(_J.kind == kind)
    if state is not None:
        wanted = wanted.where(_J.state == state.value)
    if marker is not None:
        last = connection.execute(sa.select(_J.id).where(_J.uuid == marker)).scalar()
        if last is None:
            raise NotFound(f"Job {marker} could not be found.")
        wanted = wanted.where(_J.id < last)
    return tuple(map(_job, connection.execute(wanted.order_by(_J.id.desc()).limit(limit)).mappings()))


def has_queued(connection: Connection) -> bool:
    """Return whether a job waits for a control process."""
    return connection.execute(sa.select(_J.id).where(_J.state == JobState.QUEUED.value).limit(1)).first() is not None


def claim(tx: Transaction, owner: str, most: int) -> tuple[ClaimedJob, ...]:
    """Begin at most ``most`` queued jobs, oldest first, in the control process ``owner``; return them."""
    queued = sa.select(_J.id, _J.uuid, _J.kind, _J.attempt, _J.prepared).where(_J.state == JobState.QUEUED.value)
    rows = tx.execute(queued.order_by(_J.id).limit(most)).all()
    for row in rows:
        begun = {"state": JobState.RUNNING.value, "owner": owner, "attempt": row.attempt + 1, "started_at": tx.now}
        tx.execute(sa.update(t.jobs).where(_J.id == row.id).values(progress=0.0, message="", **begun))
    return tuple(ClaimedJob(row.uuid, row.kind, row.attempt + 1, row.prepared) for row in rows)


def orders(connection: Connection, owner: str) -> dict[str, bool]:
    """Return the jobs that ``owner`` is to run, and whether each of them is to be cancelled."""
    mine = sa.select(_J.uuid, _J.is_cancelled).where(_J.owner == owner, _J.state == JobState.RUNNING.value)
    return {row.uuid: row.is_cancelled for row in connection.execute(mine)}


def note_progress(tx: Transaction, owner: str, job: ClaimedJob, progress: float, message: str) -> bool:
    """Record the progress of a job; False if ``owner`` no longer runs it."""
    return _change(tx, owner, job, progress=progress, message=message[:_LONGEST_MESSAGE])


def finish(tx: Transaction, owner: str, job: ClaimedJob, result: bytes) -> bool:
    """Store the result of a job, as compressed JSON; False if ``owner`` no longer runs it."""
    done = {"state": JobState.DONE.value, "progress": 1.0, "message": "", "finished_at": tx.now}
    return _change(tx, owner, job, result=result, **done)


def fail(tx: Transaction, owner: str, job: ClaimedJob, reason: str) -> bool:
    """Record that a job has failed; False if ``owner`` no longer runs it."""
    ended = {"state": JobState.FAILED.value, "finished_at": tx.now}
    return _change(tx, owner, job, failure=reason[:_LONGEST_FAILURE], **ended)


def note_cancelled(tx: Transaction, owner: str, job: ClaimedJob) -> bool:
    """Record that a job was stopped because it is to be cancelled; False if ``owner`` no longer runs it."""
    return _change(tx, owner, job, state=JobState.CANCELLED.value, finished_at=tx.now)


def give_back(tx: Transaction, owner: str, job: ClaimedJob) -> bool:
    """Queue a job again, because ``owner`` stops; the attempt does not count. False if ``owner`` no longer runs it."""
    again = {"state": JobState.QUEUED.value, "owner": None, "started_at": None, "attempt": job.attempt - 1}
    return _change(tx, owner, job, progress=0.0, message="", **again)


def give_lost_back(tx: Transaction, owner: str, present: Collection[str]) -> None:
    """Queue the jobs again that ``owner`` has claimed and does not run. ``present``: the jobs that it runs."""
    lost = _J.owner == owner, _J.state == JobState.RUNNING.value, _J.uuid.not_in(list(present))
    tx.execute(sa.update(t.jobs).where(*lost).values(state=JobState.QUEUED.value, owner=None, started_at=None))


def _change(tx: Transaction, owner: str, job: ClaimedJob, /, **values: Any) -> bool:
    mine = _J.uuid == job.uuid, _J.owner == owner, _J.attempt == job.attempt, _J.state == JobState.RUNNING.value
    return bool(tx.execute(sa.update(t.jobs).where(*mine).values(values)).rowcount)


def cancel_or_remove(tx: Transaction, uuid: str) -> JobRow | None:
    """Cancel an unfinished job and return it, or delete a finished job and return None. Raises: NotFound.

    A queued job is cancelled at once, a running job as soon as its control process has stopped it.
    """
    job = get(tx.connection, uuid)
    this = _J.uuid == uuid
    if job.state.is_final:
        tx.execute(sa.delete(t.jobs).where(this))
        return None
    values: dict[str, Any] = {"is_cancelled": True}
    if job.state is JobState.QUEUED:
        values |= {"state": JobState.CANCELLED.value, "finished_at": tx.now}
    tx.execute(sa.update(t.jobs).where(this).values(values))
    return get(tx.connection, uuid)


def orphans(connection: Connection, now: datetime) -> tuple[str, ...]:
    """Return the running jobs whose control process has ended. ``now``: database time."""
    lost = sa.select(_J.uuid).where(_J.state == JobState.RUNNING.value, _J.owner.not_in(host_agents.alive(now)))
    return tuple(connection.execute(lost).scalars())


def take_over(tx: Transaction) -> tuple[str, ...]:
    """Queue the jobs of ended control processes again; return those queued again.

    A job to be cancelled is cancelled, and a job fails at the death of its second control process.
    """
    lost = tx.execute(
        sa.select(_J.id, _J.uuid, _J.attempt, _J.is_cancelled).where(
            _J.state == JobState.RUNNING.value, _J.owner.not_in(host_agents.alive(tx.now))
        )
    ).all()
    again = []
    for row in lost:
        values: dict[str, Any] = {"finished_at": tx.now}
        if row.is_cancelled:
            values |= {"state": JobState.CANCELLED.value}
        elif row.attempt >= MOST_ATTEMPTS:
            values |= {"state": JobState.FAILED.value, "failure": _LOST}
        else:
            values = {"state": JobState.QUEUED.value, "owner": None, "started_at": None, "progress": 0.0, "message": ""}
            again.append(row.uuid)
        tx.execute(sa.update(t.jobs).where(_J.id == row.id).values(values))
    return tuple(again)


def surplus(connection: Connection, before: datetime, *, kept: int) -> tuple[str, ...]:
    """Return finished jobs to delete: those that ended before ``before``, and all but the newest ``kept``."""
    final = [state.value for state in JobState if state.is_final]
    rows = connection.execute(
        sa.select(_J.uuid, _J.finished_at).where(_J.state.in_(final)).order_by(_J.finished_at.desc(), _J.id.desc())
    ).all()
    return tuple(row.uuid for index, row in enumerate(rows) if index >= kept or row.finished_at < before)


def remove(tx: Transaction, uuids: Collection[str]) -> int:
    """Delete finished jobs, at most 500 of them; return the number of deleted jobs."""
    final = [state.value for state in JobState if state.is_final]
    chosen = sorted(uuids)[:_TRIMMED_TOGETHER]
    return int(tx.execute(sa.delete(t.jobs).where(_J.uuid.in_(chosen), _J.state.in_(final))).rowcount)


def _job(row: Any) -> JobRow:
    return JobRow(**{**row, "state": JobState(row["state"])})
