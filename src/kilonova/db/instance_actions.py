# SPDX-License-Identifier: Apache-2.0
"""Instance actions: each requested operation on a server, with its events."""

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from kilonova.db.core import tables as t
from kilonova.db.core.prepared import PreparedInsert
from kilonova.db.core.transaction import Transaction
from kilonova.errors import InvalidRequest
from kilonova.model.requester import Requester
from kilonova.records import dataclass

SUCCESS, ERROR = "Success", "Error"
_A = t.instance_actions.c
_BEGIN = PreparedInsert(t.instance_actions)
_ADD = PreparedInsert(t.instance_action_events)
_DETAILS = 255
_E = t.instance_action_events.c
_NEWEST = (
    sa.select(sa.func.max(_E.finished_at))
    .where(_E.instance_uuid == _A.instance_uuid, _E.request_id == _A.request_id)
    .correlate(t.instance_actions)
    .scalar_subquery()
)
_ACTIONS = sa.select(t.instance_actions, _NEWEST.label("newest"))


@dataclass(frozen=True, slots=True)
class NewAction:
    """An action that starts. ``action``: its API name, for example ``create``."""

    instance_uuid: str
    action: str
    request_id: str
    user_id: str
    project_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedEvent:
    """A finished event of an action. ``details`` is for the server's owner, ``traceback`` for administrators."""

    instance_uuid: str
    request_id: str
    event: str
    started_at: datetime
    result: str = SUCCESS
    host: str | None = None
    details: str | None = None
    traceback: str | None = None


@dataclass(frozen=True, slots=True)
class Action:
    """A stored action. ``message``: "Error" if it failed. ``updated_at``: time of its last change or event."""

    action: str
    instance_uuid: str
    request_id: str
    user_id: str
    project_id: str
    started_at: datetime
    message: str | None
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class Event:
    """An event of an action; ``finished_at`` is None while it is running."""

    event: str
    started_at: datetime
    finished_at: datetime | None = None
    result: str | None = None
    host: str | None = None
    details: str | None = None
    traceback: str | None = None


@dataclass(frozen=True, slots=True)
class ActionQuery:
    """A query for the actions of an instance. ``marker``: the request id of the last action of the previous page."""

    instance_uuid: str
    changed_since: datetime | None = None
    changed_before: datetime | None = None
    limit: int = 1000
    marker: str | None = None


def begin(tx: Transaction, actions: Sequence[NewAction]) -> None:
    """Store actions that start."""
    names = NewAction.__dataclass_fields__
    rows = [{name: getattr(action, name) for name in names} | {"started_at": tx.now} for action in actions]
    _BEGIN.run(tx.connection, rows)


def add_events(tx: Transaction, events: Sequence[EndedEvent]) -> None:
    """Store finished events."""
    names = EndedEvent.__dataclass_fields__
    rows = [
        {name: getattr(event, name) for name in names}
        | {"details": event.details and event.details[:_DETAILS], "finished_at": tx.now}
        for event in events
    ]
    _ADD.run(tx.connection, rows)


def fail(tx: Transaction, ended: Collection[tuple[str, str]]) -> None:
    """Mark actions as failed. ``ended``: pairs of instance uuid and request id."""
    if ended:
        which = sa.tuple_(_A.instance_uuid, _A.request_id).in_(list(ended))
        tx.execute(sa.update(t.instance_actions).where(which).values(message=ERROR, updated_at=tx.now))


def find(connection: Connection, instance_uuid: str, request_id: str) -> Action | None:
    """Return the action of one request on an instance, or None."""
    mine = sa.and_(_A.instance_uuid == instance_uuid, _A.request_id == request_id)
    row = connection.execute(_ACTIONS.where(mine).limit(1)).first()
    return None if row is None else _action(row)


def requester(connection: Connection, instance_uuid: str, request_id: str) -> Requester | None:
    """Return the user and project that requested an action; None if the action is not recorded or has no user."""
    columns = sa.select(_A.user_id, _A.project_id)
    mine = columns.where(_A.instance_uuid == instance_uuid, _A.request_id == request_id)
    row = connection.execute(mine.order_by(_A.id.desc()).limit(1)).first()
    return None if row is None or not row.user_id else Requester(request_id, row.user_id, row.project_id)


def list_page(connection: Connection, query: ActionQuery) -> tuple[Action, ...]:
    """Return one page of actions, newest first. Raises: InvalidRequest for an unknown marker."""
    conditions: list[Any] = [_A.instance_uuid == query.instance_uuid]
    moments = (_A.started_at, _A.updated_at, _NEWEST)
    if query.changed_since is not None:
        conditions.append(sa.or_(*(moment >= query.changed_since for moment in moments)))
    if query.changed_before is not None:
        conditions += [sa.func.coalesce(moment, _A.started_at) <= query.changed_before for moment in moments]
    if query.marker is not None:
        mine = _A.instance_uuid == query.instance_uuid, _A.request_id == query.marker
        marker = connection.execute(sa.select(_A.started_at, _A.id).where(*mine)).first()
        if marker is None:
            raise InvalidRequest(f"marker [{query.marker}] not found", field="marker")
        earlier = sa.and_(_A.started_at == marker.started_at, _A.id < marker.id)
        conditions.append(sa.or_(_A.started_at < marker.started_at, earlier))
    page = _ACTIONS.where(*conditions).order_by(_A.started_at.desc(), _A.id.desc()).limit(query.limit)
    return tuple(map(_action, connection.execute(page)))


def events(connection: Connection, instance_uuid: str, request_id: str) -> tuple[Event, ...]:
    """Return the finished events of an action, newest first."""
    columns = [_E[name] for name in Event.__dataclass_fields__]
    mine = sa.select(*columns).where(_E.instance_uuid == instance_uuid, _E.request_id == request_id)
    return tuple(Event(*row) for row in connection.execute(mine.order_by(_E.started_at.desc(), _E.id.desc())))


def _action(row: Any) -> Action:
    known = row.action, row.instance_uuid, row.request_id, row.user_id, row.project_id, row.started_at, row.message
    return Action(*known, max(filter(None, (row.started_at, row.updated_at, row.newest))))
