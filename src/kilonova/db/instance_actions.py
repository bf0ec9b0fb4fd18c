# SPDX-License-Identifier: Apache-2.0
"""What was done to a server, by request, and the steps of it: the source of users' instance actions."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa

from kilonova.db import tables as t
from kilonova.db.prepared import Prepared
from kilonova.db.transaction import Transaction

SUCCESS, ERROR = "Success", "Error"
_A = t.instance_actions.c
_BEGUN = ("instance_uuid", "action", "request_id", "user_id", "project_id", "started_at")
_ENDED = (
    "instance_uuid",
    "request_id",
    "event",
    "started_at",
    "finished_at",
    "result",
    "host",
    "details",
    "traceback",
)


def _insert(table: sa.Table, columns: Sequence[str]) -> Prepared:
    return Prepared(sa.insert(table).values({name: sa.bindparam(name, type_=table.c[name].type) for name in columns}))


_BEGIN = _insert(t.instance_actions, _BEGUN)
_ADD = _insert(t.instance_action_events, _ENDED)
_DETAILS = 255


@dataclass(frozen=True, slots=True)
class NewAction:
    """An action that begins. ``action``: as users know it, ``create`` for example."""

    instance_uuid: str
    action: str
    request_id: str
    user_id: str
    project_id: str


@dataclass(frozen=True, slots=True)
class EndedEvent:
    """One step of an action that has ended. ``details`` is for the server's owner, ``traceback`` for administrators."""

    instance_uuid: str
    request_id: str
    event: str
    started_at: datetime
    result: str = SUCCESS
    host: str | None = None
    details: str | None = None
    traceback: str | None = None


def begin(tx: Transaction, actions: Sequence[NewAction]) -> None:
    """Record actions that begin."""
    names = NewAction.__dataclass_fields__
    rows = [{name: getattr(action, name) for name in names} | {"started_at": tx.now} for action in actions]
    if rows:
        _BEGIN.run_each(tx.connection, rows)


def add_events(tx: Transaction, events: Sequence[EndedEvent]) -> None:
    """Record steps that have ended."""
    names = EndedEvent.__dataclass_fields__
    rows = [
        {name: getattr(event, name) for name in names}
        | {"details": event.details and event.details[:_DETAILS], "finished_at": tx.now}
        for event in events
    ]
    if rows:
        _ADD.run_each(tx.connection, rows)


def fail(tx: Transaction, ended: Collection[tuple[str, str]]) -> None:
    """Mark actions, (instance uuid, request id) each, as failed."""
    if ended:
        which = sa.tuple_(_A.instance_uuid, _A.request_id).in_(list(ended))
        tx.execute(sa.update(t.instance_actions).where(which).values(message=ERROR, updated_at=tx.now))
