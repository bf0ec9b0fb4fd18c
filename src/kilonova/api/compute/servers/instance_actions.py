# SPDX-License-Identifier: Apache-2.0
"""Instance actions: the history of operations on a server, with the events of each operation.

Since 2.21 also the history of a deleted server can be read.
"""

from typing import Any

from sqlalchemy.engine import Connection

from kilonova.api.compute.links import next_link
from kilonova.api.compute.schemas import instance_actions as schemas
from kilonova.api.compute.servers.servers import find_server
from kilonova.api.compute.servers.views import host_id
from kilonova.api.compute.times import read_period, stored_time
from kilonova.api.http import Context, Endpoint, Reply, Request, Routes, integer_param
from kilonova.api.microversion import Version
from kilonova.api.policy import ADMIN, PROJECT_READER_OR_ADMIN, rule
from kilonova.api.schemas import queries
from kilonova.api.schemas.types import MAX_INTEGER
from kilonova.conductor.workflow_engine.running_steps import events_under_way
from kilonova.db import instance_actions
from kilonova.db.instance_actions import Action, ActionQuery, Event
from kilonova.deadline import heeding
from kilonova.errors import NotFound
from kilonova.model.instance import Instance

_P = "os_compute_api:os-instance-actions"
_ALL = "/servers/{server_id}/os-instance-actions"
_ONE = f"{_ALL}/{{request_id}}"
RULES = (
    rule(f"{_P}:list", PROJECT_READER_OR_ADMIN, "List the actions of a server", ("GET", _ALL)),
    rule(f"{_P}:show", PROJECT_READER_OR_ADMIN, "Show one action", ("GET", _ONE)),
    rule(f"{_P}:events", ADMIN, "Show tracebacks and hosts of an action's events", ("GET", _ONE)),
    rule(f"{_P}:events:details", ADMIN, "Show error details of events", ("GET", _ONE)),
)
_PAGED = Version(2, 58)


def list_actions(ctx: Context, request: Request) -> Reply:
    """GET /servers/{server_id}/os-instance-actions.  Newest first.  2.58 adds paging.  Errors: 400, 404."""
    instance = _server(ctx, request, "list")
    query = _query(ctx, request, instance)
    with ctx.read() as connection:
        found = instance_actions.list_page(connection, query)
    body: dict[str, Any] = {"instanceActions": [_action_view(action, request.version) for action in heeding(found)]}
    if request.version >= _PAGED and found and len(found) == query.limit:
        body["links"] = [next_link(request, found[-1].request_id)]
    return Reply(200, body)


def show_action(ctx: Context, request: Request) -> Reply:
    """GET …/os-instance-actions/{request_id}.  Since 2.51 all callers see the events.  Errors: 404."""
    instance = _server(ctx, request, "show")
    with ctx.read() as connection:
        action = instance_actions.find(connection, instance.uuid, request.path["request_id"])
        if action is None:
            raise NotFound(f"Action for request_id {request.path['request_id']} on instance {instance.uuid} not found")
        events = _events(ctx, connection, action)
    view = _action_view(action, request.version)
    sees_more = ctx.may(f"{_P}:events", project_id=instance.project_id)
    if sees_more or request.version >= Version(2, 51):
        view["events"] = [_event_view(ctx, request.version, instance, event, sees_more=sees_more) for event in events]
    return Reply(200, {"instanceAction": view})


def _server(ctx: Context, request: Request, action: str) -> Instance:
    also_deleted = request.version >= Version(2, 21)
    return find_server(ctx, request.path["server_id"], f"{_P}:{action}", also_deleted=also_deleted)


def _query(ctx: Context, request: Request, instance: Instance) -> ActionQuery:
    if request.version < _PAGED:
        return ActionQuery(instance.uuid, limit=MAX_INTEGER)
    since, before = read_period(request)
    maximum = ctx.backend.settings.api.max_limit
    asked = integer_param(request, "limit")
    limit = maximum if asked is None else min(asked, maximum)
    return ActionQuery(instance.uuid, since, before, limit, request.param("marker"))


def _events(ctx: Context, connection: Connection, action: Action) -> tuple[Event, ...]:
    """Return the events of an action: first the event of the step in progress, then finished events, newest first."""
    begun = events_under_way(connection, ctx.backend.conductor.runner.registry, action.instance_uuid, action.request_id)
    return begun + instance_actions.events(connection, action.instance_uuid, action.request_id)


def _action_view(action: Action, version: Version) -> dict[str, Any]:
    view: dict[str, Any] = {
        "action": action.action,
        "instance_uuid": action.instance_uuid,
        "request_id": action.request_id,
        "user_id": action.user_id or None,  # null if e.g. a periodic task started the action
        "project_id": action.project_id or None,
        "start_time": stored_time(action.started_at),
        "message": action.message,
    }
    if version >= _PAGED:
        view["updated_at"] = stored_time(action.updated_at)
    return view


def _event_view(ctx: Context, version: Version, instance: Instance, event: Event, *, sees_more: bool) -> dict[str, Any]:
    view: dict[str, Any] = {
        "event": event.event,
        "start_time": stored_time(event.started_at),
        "finish_time": stored_time(event.finished_at),
        "result": event.result,
    }
    if sees_more:
        view["traceback"] = event.traceback
    if version >= Version(2, 62):
        view["hostId"] = host_id(instance.project_id, event.host)
        if sees_more:
            view["host"] = event.host
    if version >= Version(2, 84) and ctx.may(f"{_P}:events:details", project_id=instance.project_id):
        view["details"] = event.details
    return view


ROUTES: Routes = {
    _ALL: {"GET": Endpoint(list_actions, query=schemas.LIST)},
    _ONE: {"GET": Endpoint(show_action, query=queries.NONE)},
}
