# SPDX-License-Identifier: Apache-2.0
"""Servers: list, show, delete. Creating has a file of its own."""

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from kilonova.api.compute.links import next_link
from kilonova.api.compute.server_create import create_server
from kilonova.api.compute.server_states import check_unlocked
from kilonova.api.compute.server_views import detail_view, summary_view, surroundings
from kilonova.api.compute.times import read_time
from kilonova.api.http import Context, Endpoint, Reply, Request, Routes, integer_param
from kilonova.api.microversion import Version
from kilonova.api.policy import ADMIN, PROJECT_MEMBER_OR_ADMIN, PROJECT_READER_OR_ADMIN, rule
from kilonova.api.schemas import servers as schemas
from kilonova.api.validation import invalid_parameter, shortened
from kilonova.db import instance_lists, instances
from kilonova.db.instance_lists import InstanceQuery
from kilonova.deadline import heeding
from kilonova.errors import Forbidden, InvalidRequest, NotFound
from kilonova.model.instance import Instance, TaskState, VmState, states_of

_P = "os_compute_api:servers"
RULES = (
    rule(f"{_P}:index", PROJECT_READER_OR_ADMIN, "List servers", ("GET", "/servers")),
    rule(f"{_P}:detail", PROJECT_READER_OR_ADMIN, "List servers with details", ("GET", "/servers/detail")),
    rule(f"{_P}:index:get_all_tenants", ADMIN, "List servers of all projects", ("GET", "/servers")),
    rule(f"{_P}:detail:get_all_tenants", ADMIN, "List servers of all projects", ("GET", "/servers/detail")),
    rule(f"{_P}:allow_all_filters", ADMIN, "Use every filter of the list", ("GET", "/servers")),
    rule(f"{_P}:show", PROJECT_READER_OR_ADMIN, "Show a server", ("GET", "/servers/{server_id}")),
    rule(f"{_P}:show:host_status", ADMIN, "See the state of a server's host", ("GET", "/servers/{server_id}")),
    rule(f"{_P}:show:fault_details", ADMIN, "See the details of a fault", ("GET", "/servers/{server_id}")),
    rule("os_compute_api:os-extended-server-attributes", ADMIN, "See where a server is", ("GET", "/servers/{id}")),
    rule(f"{_P}:create", PROJECT_MEMBER_OR_ADMIN, "Create a server", ("POST", "/servers")),
    rule(f"{_P}:create:forced_host", ADMIN, "Force a host with ZONE:HOST:NODE", ("POST", "/servers")),
    rule("compute:servers:create:requested_destination", ADMIN, "Ask for a host", ("POST", "/servers")),
    rule(f"{_P}:create:zero_disk_flavor", ADMIN, "Use a flavor without disk", ("POST", "/servers")),
    rule(f"{_P}:delete", PROJECT_MEMBER_OR_ADMIN, "Delete a server", ("DELETE", "/servers/{server_id}")),
)

#: query parameter → column, for everyone
_EQUALS = {"image": "image_ref", "flavor": "flavor_id", "reservation_id": "reservation_id", "uuid": "uuid"}
#: from 2.83 for everyone, before that for administrators
_LATER_EQUALS = {
    "availability_zone": "availability_zone",
    "config_drive": "config_drive",
    "key_name": "key_name",
    "power_state": "power_state",
    "task_state": "task_state",
    "vm_state": "vm_state",
    "progress": "progress",
    "user_id": "user_id",
}
_ADMIN_EQUALS = {
    "host": "host",
    "node": "node",
    "hostname": "hostname",
    "launch_index": "launch_index",
    "access_ip_v4": "access_ip_v4",
    "access_ip_v6": "access_ip_v6",
}
_NUMBERS = {"power_state", "progress", "launch_index"}
#: from 2.26
_TAG_FILTERS = {
    "tags": "tags",
    "tags-any": "tags_any",
    "not-tags": "not_tags",
    "not-tags-any": "not_tags_any",
}
_SORT_KEYS = {
    "created_at": "created_at",
    "updated_at": "updated_at",
    "display_name": "name",
    "uuid": "uuid",
    "vm_state": "vm_state",
    "task_state": "task_state",
    "power_state": "power_state",
    "launched_at": "launched_at",
    "terminated_at": "terminated_at",
    "project_id": "project_id",
    "user_id": "user_id",
    "image_ref": "image_ref",
    "instance_type_id": "flavor_id",
    "key_name": "key_name",
    "launch_index": "launch_index",
    "availability_zone": "availability_zone",
    "config_drive": "config_drive",
    "progress": "progress",
    "access_ip_v4": "access_ip_v4",
    "access_ip_v6": "access_ip_v6",
    "auto_disk_config": "disk_config",
    "display_description": "description",
    "host": "host",
    "node": "node",
}
_ADMIN_SORT_KEYS = {"host", "node"}


def list_servers(ctx: Context, request: Request) -> Reply:
    """GET /servers."""
    found, links = _page(ctx, request, "index")
    return Reply(200, {"servers": [summary_view(request, instance) for instance in heeding(found)], **links})


def list_servers_detail(ctx: Context, request: Request) -> Reply:
    """GET /servers/detail."""
    found, links = _page(ctx, request, "detail")
    with ctx.backend.database.read() as connection:
        around = surroundings(connection, found, request.version)
    return Reply(
        200, {"servers": [detail_view(ctx, request, instance, around) for instance in heeding(found)], **links}
    )


def show_server(ctx: Context, request: Request) -> Reply:
    """GET /servers/{server_id}.  Errors: 404, also for a server of another project."""
    instance = find_server(ctx, request.path["server_id"], "os_compute_api:servers:show")
    with ctx.backend.database.read() as connection:
        around = surroundings(connection, [instance], request.version)
    return Reply(200, {"server": detail_view(ctx, request, instance, around, with_groups=True)})


def delete_server(ctx: Context, request: Request) -> Reply:
    """DELETE /servers/{server_id}.  A second one while the first runs is accepted too."""
    instance = find_server(ctx, request.path["server_id"], "os_compute_api:servers:delete")
    check_unlocked(ctx, instance)
    ctx.backend.conductor.operations.deletes.delete(instance, ctx.requester)
    return Reply(204)


def find_server(ctx: Context, server_id: str, rule_name: str, *, also_deleted: bool = False) -> Instance:
    """Return a server that the caller may act on. Raises: NotFound (also for those of others), Forbidden."""
    with ctx.backend.database.read() as connection:
        find = instances.find_any if also_deleted else instances.find
        instance = find(connection, server_id)
    if instance is None or not ctx.sees(rule_name, instance.project_id):
        raise NotFound(f"Instance {server_id} could not be found.")
    ctx.authorize(rule_name, project_id=instance.project_id)
    return instance


def _page(ctx: Context, request: Request, action: str) -> tuple[tuple[Instance, ...], dict[str, Any]]:
    ctx.authorize(f"os_compute_api:servers:{action}")
    maximum = ctx.backend.settings.api.max_limit
    asked = integer_param(request, "limit")
    limit = maximum if asked is None else min(asked, maximum)
    query = _query(ctx, request, action, limit)
    if query is None or limit == 0:
        return (), {}
    with ctx.backend.database.read() as connection:
        found = instance_lists.list_page(connection, query)
    links = {"servers_links": [next_link(request, found[-1].uuid)]} if found and len(found) == limit else {}
    return found, links


def _query(ctx: Context, request: Request, action: str, limit: int) -> InstanceQuery | None:
    """Return what to look for, None when nothing can match."""
    sees_all_filters = ctx.may("os_compute_api:servers:allow_all_filters")
    project_id: str | None = ctx.project_id
    if _flag(request, "all_tenants"):
        ctx.authorize(f"os_compute_api:servers:{action}:get_all_tenants")
        project_id = request.param("project_id") or request.param("tenant_id")
    if request.param("ip") or (request.version >= Version(2, 5) and request.param("ip6")):
        return None  # no server has an address without a network service
    allowed = dict(_EQUALS)
    if sees_all_filters or request.version >= Version(2, 83):
        allowed |= _LATER_EQUALS
    if sees_all_filters:
        allowed |= _ADMIN_EQUALS
    equals: dict[str, list[Any]] = {}
    for name, column in allowed.items():
        if (text := request.param(name)) is not None:
            value = _filter_value(name, text)
            if value is _NEVER:
                return None
            equals[column] = [value]
    if request.version >= Version(2, 73) and (text := request.param("locked")) is not None:
        equals["locked_by"] = ["admin", "owner"] if _flag(request, "locked") else [None]
    states = _states(request)
    if states == ():
        return None
    since = _time(request, "changes-since")
    before = _time(request, "changes-before") if request.version >= Version(2, 66) else None
    deleted: bool | None = None if since or before else False
    if request.param("deleted") is not None and sees_all_filters:
        deleted = _flag(request, "deleted")
    if states and any(vm is VmState.DELETED for vm, _ in states):
        if not sees_all_filters:
            raise Forbidden("Only administrators may list deleted servers", field="status")
        deleted = True
    return InstanceQuery(
        project_id=project_id,
        deleted=deleted,
        states=states,
        equals=equals,
        name=request.param("name") or None,
        changed_since=since,
        changed_before=before,
        **_tags(request),
        sort=_sort(request, sees_all_filters),
        limit=limit,
        marker=request.param("marker"),
    )


_NEVER = object()
_NUMBER = re.compile(r"-?[0-9]{1,9}")
_BOOLEANS: Mapping[str, bool] = {
    "": True,
    **dict.fromkeys(("1", "true", "t", "yes", "y", "on"), True),
    **dict.fromkeys(("0", "false", "f", "no", "n", "off"), False),
}


def _tags(request: Request) -> dict[str, tuple[str, ...]]:
    """Return the tag filters by field of the query; each is a list with commas."""
    if request.version < Version(2, 26):
        return {}
    return {
        field: tuple(dict.fromkeys(text.split(",")))
        for name, field in _TAG_FILTERS.items()
        if (text := request.param(name)) is not None
    }


def _filter_value(name: str, text: str) -> Any:
    if name in {"flavor", "image"}:
        return text.rstrip("/").rpartition("/")[2]
    if name in _NUMBERS:
        return int(text) if _NUMBER.fullmatch(text) else _NEVER
    if name == "config_drive":
        wanted = _BOOLEANS.get(text.lower())
        return _NEVER if wanted is None else "True" if wanted else ""
    if name == "task_state":
        return None if text in {"", "None", "none"} else text
    return text


def _states(request: Request) -> tuple[tuple[VmState, frozenset[TaskState | None]], ...] | None:
    words = tuple(dict.fromkeys(request.query.get("status", ())))
    if not words:
        return None
    found: list[tuple[VmState, frozenset[TaskState | None]]] = []
    for word in words:
        found += states_of(word)
    if not found and request.version >= Version(2, 38):
        raise InvalidRequest(f"Invalid status value: {shortened(', '.join(words))}", field="status")
    return tuple(dict.fromkeys(found))


def _time(request: Request, name: str) -> datetime | None:
    text = request.param(name)
    return None if text is None else read_time(name, text)


def _sort(request: Request, is_admin: bool) -> tuple[tuple[str, bool], ...]:
    keys = request.query.get("sort_key") or ()
    directions = list(request.query.get("sort_dir") or ())
    sort: dict[str, bool] = {}  # a column that is named again changes nothing
    for index, key in enumerate(keys):
        column = _SORT_KEYS.get(key)
        if column is None:
            if request.version >= Version(2, 75):
                raise invalid_parameter("sort_key", key, "It is not a sort key.")
            continue
        if key in _ADMIN_SORT_KEYS and not is_admin:
            raise Forbidden(f"Only administrators can sort servers by {key}", field="sort_key")
        descending = (
            directions[index] if index < len(directions) else (directions[-1] if directions else "desc")
        ) == "desc"
        sort.setdefault(column, descending)
    return tuple(sort.items())


def _flag(request: Request, name: str) -> bool:
    text = request.param(name)
    if text is None:
        return False
    try:
        return _BOOLEANS[text.lower()]
    except KeyError:
        raise invalid_parameter(name, text, "A boolean is expected.") from None


ROUTES: Routes = {
    "/servers": {
        "GET": Endpoint(list_servers, query=schemas.LIST),
        "POST": Endpoint(create_server, body=schemas.CREATE),
    },
    "/servers/detail": {"GET": Endpoint(list_servers_detail, query=schemas.LIST)},
    "/servers/{server_id}": {"GET": Endpoint(show_server), "DELETE": Endpoint(delete_server)},
}
