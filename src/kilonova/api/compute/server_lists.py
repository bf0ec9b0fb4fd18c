# SPDX-License-Identifier: Apache-2.0
"""GET /servers and /servers/detail: what clients may ask for, one page at a time. Source: spec COMPUTE_API §1.3."""

import re
from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any

import msgspec

from kilonova.api.compute.links import next_link
from kilonova.api.compute.server_views import detail_view, summary_view, surroundings
from kilonova.api.compute.times import read_time
from kilonova.api.http import Context, Reply, Request, integer_param
from kilonova.api.microversion import Version
from kilonova.api.schemas.types import METADATA_KEY
from kilonova.api.validation import invalid_parameter, shortened
from kilonova.db import instance_lists
from kilonova.db.instance_lists import InstanceQuery
from kilonova.deadline import heeding
from kilonova.errors import Forbidden, InvalidRequest
from kilonova.model.instance import Instance, TaskState, VmState, states_of

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


def count_matching(ctx: Context, request: Request) -> int:
    """Count the servers that a list with these filters would show, on all of its pages. Raises: as a list."""
    query = _query(ctx, request, "index", limit=1)
    if query is None:
        return 0
    with ctx.backend.database.read() as connection:
        return instance_lists.count(connection, query)


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
    metadata = _metadata(request) if sees_all_filters else {}
    if not all(map(_METADATA_KEY.fullmatch, metadata)):
        return None
    states = _states(request)
    if states == ():
        return None
    since = _time(request, "changes-since")
    before = _time(request, "changes-before") if request.version >= Version(2, 66) else None
    deleted: bool | None = None if since or before else False
    soft_deleted: bool | None = None
    if sees_all_filters:
        deleted = _flag(request, "deleted") if request.param("deleted") is not None else deleted
        soft_deleted = _flag(request, "soft_deleted") if request.param("soft_deleted") is not None else None
    if _asks_for_soft_deleted(states, equals):
        soft_deleted = True
    if states and any(vm is VmState.DELETED for vm, _ in states):
        if not sees_all_filters:
            raise Forbidden("Only administrators may list deleted servers", field="status")
        deleted = True
    return InstanceQuery(
        project_id=project_id,
        deleted=deleted,
        soft_deleted=soft_deleted,
        states=states,
        equals=equals,
        name=request.param("name") or None,
        changed_since=since,
        changed_before=before,
        metadata=metadata,
        **_tags(request),
        sort=_sort(request, sees_all_filters),
        limit=limit,
        marker=request.param("marker"),
    )


def _asks_for_soft_deleted(
    states: tuple[tuple[VmState, frozenset[TaskState | None]], ...] | None, equals: Mapping[str, Collection[Any]]
) -> bool:
    """Tell whether somebody names this very state, so that the list need not hide it."""
    named = {vm for vm, _ in states or ()} | {*equals.get("vm_state", ())}
    return VmState.SOFT_DELETED in named


_NEVER = object()
_NUMBER = re.compile(r"-?[0-9]{1,9}")
_METADATA_KEY = re.compile(METADATA_KEY)
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


def _metadata(request: Request) -> dict[str, str]:
    """Return the pairs that a server's metadata must have: a JSON object of texts. Raises: InvalidRequest."""
    text = request.param("metadata")
    if text is None:
        return {}
    try:
        return msgspec.json.decode(text, type=dict[str, str])
    except msgspec.DecodeError:
        raise invalid_parameter("metadata", text, "A JSON object of texts is expected.") from None


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
        if key == "locked" and request.version >= Version(2, 73):
            column = "locked_by"
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
