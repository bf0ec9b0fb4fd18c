# SPDX-License-Identifier: Apache-2.0
"""GET /servers and /servers/detail, sorted and paged.

Source: spec COMPUTE_API §1.3.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

from sqlalchemy.engine import Connection

from kilonova.api.compute.links import next_link
from kilonova.api.compute.servers.filters import read_filters
from kilonova.api.compute.servers.views import Views, summary_view, surroundings
from kilonova.api.http import Context, Reply, Request, integer_param
from kilonova.api.microversion import Version
from kilonova.api.validation import invalid_parameter
from kilonova.db import instance_lists
from kilonova.db.instance_lists import InstanceQuery, NamedInstance
from kilonova.deadline import heeding
from kilonova.errors import Forbidden
from kilonova.model.instance import Instance

T = TypeVar("T", Instance, NamedInstance)
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
    "hostname": "hostname",
    "locked_by": "locked_by",
    "node": "node",
}
#: Sort keys that are accepted and ignored, because all servers have the same value.
_ALIKE = frozenset({"kernel_id", "ramdisk_id", "root_device_name"})
#: Last microversion in which the sort keys in ``_SKIPPED`` are accepted. They have no effect.
_SKIPPED_UNTIL = Version(2, 74)
_SKIPPED = frozenset(
    {
        "architecture", "cell_name", "cleaned", "default_ephemeral_device", "default_swap_device", "deleted",
        "deleted_at", "disable_terminate", "ephemeral_gb", "ephemeral_key_uuid", "id", "key_data", "launched_on",
        "locked", "memory_mb", "os_type", "reservation_id", "root_gb", "shutdown_terminate", "user_data", "vcpus",
        "vm_mode",
    }
)  # fmt: skip
_ADMIN_SORT_KEYS = {"host", "node"}


def list_servers(ctx: Context, request: Request) -> Reply:
    """GET /servers."""
    found, links = _page(ctx, request, "index", instance_lists.list_names)
    return Reply(200, {"servers": [summary_view(request, instance) for instance in heeding(found)], **links})


def list_servers_detail(ctx: Context, request: Request) -> Reply:
    """GET /servers/detail."""
    found, links = _page(ctx, request, "detail", instance_lists.list_page)
    with ctx.read() as connection:
        around = surroundings(connection, found, request.version)
    views = Views(ctx, request, around)
    return Reply(200, {"servers": [views.detail(instance) for instance in heeding(found)], **links})


def count_matching(ctx: Context, request: Request) -> int:
    """Return the number of servers that match the request's filters, which are those of GET /servers.

    Raises: InvalidRequest, Forbidden.
    """
    query = read_filters(ctx, request, "index")
    if query is None:
        return 0
    with ctx.read() as connection:
        return instance_lists.count(connection, query)


def _page(
    ctx: Context, request: Request, action: str, read: Callable[[Connection, InstanceQuery], tuple[T, ...]]
) -> tuple[tuple[T, ...], dict[str, Any]]:
    """Return the requested page of servers, and the reply's field with the link to the next page.

    ``read``: returns the servers of a database query.
    """
    ctx.authorize(f"os_compute_api:servers:{action}")
    maximum = ctx.backend.settings.api.max_limit
    asked = integer_param(request, "limit")
    limit = maximum if asked is None else min(asked, maximum)
    sort = _sort(request, is_admin=ctx.may("os_compute_api:servers:allow_all_filters"))
    query = read_filters(ctx, request, action)
    if query is None or limit == 0:
        return (), {}
    query = replace(query, sort=sort, limit=limit, marker=request.param("marker"))
    with ctx.read() as connection:
        found = read(connection, query)
    links = {"servers_links": [next_link(request, found[-1].uuid)]} if found and len(found) == limit else {}
    return found, links


def _sort(request: Request, *, is_admin: bool) -> tuple[tuple[str, bool], ...]:
    keys = request.query.get("sort_key") or ()
    directions = list(request.query.get("sort_dir") or ())
    sort: dict[str, bool] = {}  # column → whether descending; a second sort key for the same column is ignored
    for index, key in enumerate(keys):
        column = _SORT_KEYS.get(key)
        if key == "locked" and request.version >= Version(2, 73):
            column = "locked_by"
        if column is None:
            if key in _ALIKE or (key in _SKIPPED and request.version <= _SKIPPED_UNTIL):
                continue
            raise invalid_parameter("sort_key", key, "This is not a sort key.")
        if key in _ADMIN_SORT_KEYS and not is_admin:
            raise Forbidden(f"Only administrators can sort servers by {key}", field="sort_key")
        descending = (
            directions[index] if index < len(directions) else (directions[-1] if directions else "desc")
        ) == "desc"
        sort.setdefault(column, descending)
    return tuple(sort.items())
