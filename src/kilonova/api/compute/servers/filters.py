# SPDX-License-Identifier: Apache-2.0
"""Filters of GET /servers and GET /servers/detail. Source: spec COMPUTE_API §1.3.

As in Nova, a filter is ignored if the caller does not have the right to use it.
"""

import re
from collections.abc import Collection, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

import msgspec

from kilonova.api.compute.times import read_moment, read_period
from kilonova.api.http import Context, Request
from kilonova.api.microversion import Version
from kilonova.api.schemas.types import METADATA_KEY
from kilonova.api.validation import invalid_parameter, shortened
from kilonova.db.instance_lists import InstanceQuery, Zone
from kilonova.errors import Forbidden, InvalidRequest
from kilonova.model.instance import TaskState, VmState, states_of

#: Query parameter → database column, for filters that all callers may use.
_EQUALS = {"image": "image_ref", "flavor": "flavor_id", "reservation_id": "reservation_id"}
#: Query parameter → database column, for filters that only administrators may use before 2.83. The same applies to the
#: filters availability_zone and ``_TIMES``.
_LATER_EQUALS = {
    "config_drive": "config_drive",
    "key_name": "key_name",
    "power_state": "power_state",
    "task_state": "task_state",
    "vm_state": "vm_state",
    "progress": "progress",
    "user_id": "user_id",
}
_TIMES = ("created_at", "launched_at", "terminated_at")
_ADMIN_EQUALS = {
    "uuid": "uuid",
    "host": "host",
    "node": "node",
    "hostname": "hostname",
    "image_ref": "image_ref",
    "launch_index": "launch_index",
    "locked_by": "locked_by",
    "auto_disk_config": "disk_config",
    "access_ip_v4": "access_ip_v4",
    "access_ip_v6": "access_ip_v6",
}
#: Query parameter → the value that every server has. Any other value matches no server. For administrators only.
_ALIKE = {"kernel_id": "", "ramdisk_id": "", "root_device_name": "/dev/vda"}
#: Query parameters that filter by a regular expression on the description, for administrators only. Of several such
#: parameters in a request, the first in this tuple is used.
_DESCRIPTIONS = ("description", "display_description")
_NUMBERS = {"power_state", "progress", "launch_index"}
#: Query parameter of a filter by tags (since 2.26) → field of InstanceQuery.
_TAG_FILTERS = {
    "tags": "tags",
    "tags-any": "tags_any",
    "not-tags": "not_tags",
    "not-tags-any": "not_tags_any",
}
_OPEN = Version(2, 83)
States = tuple[tuple[VmState, frozenset[TaskState | None]], ...]


def read_filters(ctx: Context, request: Request, action: str) -> InstanceQuery | None:
    """Return the database query for the request's filters, or None if no server can match them.

    ``action``: ``index`` or ``detail``, a part of the policy rule's name. Raises: InvalidRequest, Forbidden.
    """
    sees_all_filters = ctx.may("os_compute_api:servers:allow_all_filters")
    is_open = sees_all_filters or request.version >= _OPEN
    project_id: str | None = ctx.project_id
    if asks_for_all_projects(request):
        ctx.authorize(f"os_compute_api:servers:{action}:get_all_tenants")
        project_id = request.param("project_id") or request.param("tenant_id")
    states = _states(request)
    since, before = read_period(request)
    equals = _equals(request, sees_all_filters=sees_all_filters, is_open=is_open)
    moments = {name: _moment(request, name) for name in _TIMES if is_open and request.param(name) is not None}
    metadata = _metadata(request) if sees_all_filters else {}
    if states == () or equals is None or not all(map(_METADATA_KEY.fullmatch, metadata)):
        return None
    addresses = _addresses(request, sees_all_filters=sees_all_filters)
    if addresses and ctx.backend.network is None:
        return None  # without a network service, no server has an address
    if sees_all_filters and any(request.param(name) not in {None, value} for name, value in _ALIKE.items()):
        return None
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
    query = InstanceQuery(
        project_id=project_id,
        deleted=deleted,
        soft_deleted=soft_deleted,
        states=states,
        equals=equals,
        patterns=_patterns(request, sees_all_filters=sees_all_filters),
        addresses=addresses,
        zone=_zone(ctx, request) if is_open else None,
        moments=moments,
        changed_since=since,
        changed_before=before,
        metadata=metadata,
    )
    return replace(query, **_tags(request))


def asks_for_all_projects(request: Request) -> bool:
    """Whether the request sets ``all_tenants``. Only then the query parameter ``project_id`` has an effect.

    Raises: InvalidRequest.
    """
    return _flag(request, "all_tenants")


def _equals(request: Request, *, sees_all_filters: bool, is_open: bool) -> dict[str, Collection[Any]] | None:
    """Return database column → accepted values, or None if an invalid filter value excludes all servers."""
    allowed = {**(_ADMIN_EQUALS if sees_all_filters else {}), **_EQUALS, **(_LATER_EQUALS if is_open else {})}
    equals: dict[str, Collection[Any]] = {}
    for name, column in allowed.items():
        if (text := request.param(name)) is not None:
            value = _filter_value(name, text)
            if value is _NEVER:
                return None
            equals[column] = [value]
    if request.version >= Version(2, 73) and request.param("locked") is not None:
        equals["locked_by"] = ["admin", "owner"] if _flag(request, "locked") else [None]
    return equals


def _patterns(request: Request, *, sees_all_filters: bool) -> dict[str, str]:
    """Return database column → regular expression that its value must match."""
    names = ("name", "display_name") if sees_all_filters else ("name",)
    wanted = {"name": names, "description": _DESCRIPTIONS if sees_all_filters else ()}
    given = {column: next(filter(None, map(request.param, params)), None) for column, params in wanted.items()}
    return {column: text for column, text in given.items() if text}


def _addresses(request: Request, *, sees_all_filters: bool) -> dict[int, str]:
    """Return IP version → regular expression for an address of the server."""
    sees_ip6 = sees_all_filters or request.version >= Version(2, 5)
    given = {4: request.param("ip"), 6: request.param("ip6") if sees_ip6 else None}
    return {version: text for version, text in given.items() if text}


def _zone(ctx: Context, request: Request) -> Zone | None:
    name = request.param("availability_zone")
    if name is None:
        return None
    return Zone(name, is_default=name == ctx.backend.settings.compute.default_availability_zone)


def _moment(request: Request, name: str) -> tuple[datetime, datetime]:
    return read_moment(name, request.param(name) or "")


def _asks_for_soft_deleted(states: States | None, equals: Mapping[str, Collection[Any]]) -> bool:
    """Whether a filter names the vm_state soft-deleted. Without such a filter, lists hide soft-deleted servers."""
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


def _tags(request: Request) -> dict[str, Any]:
    """Return the filters by tags as fields of InstanceQuery. Each query parameter is a comma-separated list of tags."""
    if request.version < Version(2, 26):
        return {}
    return {
        field: tuple(dict.fromkeys(text.split(",")))
        for name, field in _TAG_FILTERS.items()
        if (text := request.param(name)) is not None
    }


def _metadata(request: Request) -> dict[str, str]:
    """Return the metadata that servers must have. The query parameter is a JSON object with string values.

    Raises: InvalidRequest.
    """
    text = request.param("metadata")
    if text is None:
        return {}
    try:
        return msgspec.json.decode(text, type=dict[str, str])
    except msgspec.DecodeError:
        raise invalid_parameter("metadata", text, "A JSON object with string values is expected.") from None


def _filter_value(name: str, text: str) -> Any:
    if name in {"flavor", "image", "image_ref"}:
        return text.rstrip("/").rpartition("/")[2]
    if name in _NUMBERS:
        return int(text) if _NUMBER.fullmatch(text) else _NEVER
    if name == "config_drive":
        wanted = _BOOLEANS.get(text.lower())
        return _NEVER if wanted is None else "True" if wanted else ""
    if name == "auto_disk_config":
        wanted = _BOOLEANS.get(text.lower())
        return _NEVER if wanted is None else "AUTO" if wanted else "MANUAL"
    if name == "task_state":
        return None if text in {"", "None", "none"} else text
    return text


def _states(request: Request) -> States | None:
    words = tuple(dict.fromkeys(request.query.get("status", ())))
    if not words:
        return None
    found: list[tuple[VmState, frozenset[TaskState | None]]] = []
    for word in words:
        found += states_of(word)
    if not found and request.version >= Version(2, 38):
        raise InvalidRequest(f"Invalid status value: {shortened(', '.join(words))}", field="status")
    return tuple(dict.fromkeys(found))


def _flag(request: Request, name: str) -> bool:
    text = request.param(name)
    if text is None:
        return False
    try:
        return _BOOLEANS[text.lower()]
    except KeyError:
        raise invalid_parameter(name, text, "A boolean is expected.") from None
