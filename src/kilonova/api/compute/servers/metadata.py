# SPDX-License-Identifier: Apache-2.0
"""Routes of a server's metadata: key=value pairs that users set. Source: spec COMPUTE_API §2, rows 8 to 13."""

from collections.abc import Callable, Mapping
from dataclasses import replace

from kilonova.api.compute.quota_limits import limits_of_project
from kilonova.api.compute.schemas import server_metadata as schemas
from kilonova.api.compute.servers.servers import find_server
from kilonova.api.compute.servers.states import check_allowed
from kilonova.api.http import Context, Endpoint, Reply, Request, Routes
from kilonova.api.policy import PROJECT_MEMBER_OR_ADMIN, PROJECT_READER_OR_ADMIN, rule
from kilonova.api.schemas import queries
from kilonova.db import instances
from kilonova.db.core.transaction import Transaction
from kilonova.errors import InvalidRequest, NotFound, OverQuota
from kilonova.model.instance import Instance
from kilonova.model.transitions import NOTES
from kilonova.notifications.events import ServerChanged
from kilonova.notifications.message import Source

_P = "os_compute_api:server-metadata"
_ALL = "/servers/{server_id}/metadata"
_ONE = f"{_ALL}/{{key}}"
RULES = (
    rule(f"{_P}:index", PROJECT_READER_OR_ADMIN, "List the metadata of a server", ("GET", _ALL)),
    rule(f"{_P}:show", PROJECT_READER_OR_ADMIN, "Show a metadata item", ("GET", _ONE)),
    rule(f"{_P}:create", PROJECT_MEMBER_OR_ADMIN, "Add to the metadata of a server", ("POST", _ALL)),
    rule(f"{_P}:update_all", PROJECT_MEMBER_OR_ADMIN, "Replace the metadata of a server", ("PUT", _ALL)),
    rule(f"{_P}:update", PROJECT_MEMBER_OR_ADMIN, "Set a metadata item", ("PUT", _ONE)),
    rule(f"{_P}:delete", PROJECT_MEMBER_OR_ADMIN, "Remove a metadata item", ("DELETE", _ONE)),
)
Metadata = Mapping[str, str]


def list_metadata(ctx: Context, request: Request) -> Reply:
    """GET /servers/{server_id}/metadata.  Errors: 404."""
    instance = find_server(ctx, request.path["server_id"], f"{_P}:index")
    return Reply(200, {"metadata": dict(instance.metadata)})


def merge_metadata(ctx: Context, request: Request) -> Reply:
    """POST /servers/{server_id}/metadata.  Keeps all other keys.  Errors: 403 over quota, 404, 409."""
    new: Metadata = request.body["metadata"]
    return Reply(200, {"metadata": _set(ctx, request, "create", lambda present: {**present, **new})})


def replace_metadata(ctx: Context, request: Request) -> Reply:
    """PUT /servers/{server_id}/metadata.  Errors: 403 over quota, 404, 409."""
    new: Metadata = request.body["metadata"]
    return Reply(200, {"metadata": _set(ctx, request, "update_all", lambda _: new)})


def show_item(ctx: Context, request: Request) -> Reply:
    """GET /servers/{server_id}/metadata/{key}.  Errors: 404."""
    instance = find_server(ctx, request.path["server_id"], f"{_P}:show")
    key = request.path["key"]
    if key not in instance.metadata:
        raise _no_item()
    return Reply(200, {"meta": {key: instance.metadata[key]}})


def set_item(ctx: Context, request: Request) -> Reply:
    """PUT /servers/{server_id}/metadata/{key}.  Errors: 400 if the key is not in the body, 403 over quota, 404, 409."""
    new: Metadata = request.body["meta"]
    server_id, key = request.path["server_id"], request.path["key"]
    find_server(ctx, server_id, f"{_P}:update")
    if key not in new:
        raise InvalidRequest("Request body and URI mismatch: the body has another key than the path.", field="meta")
    _set(ctx, request, "update", lambda present: {**present, **new})
    return Reply(200, {"meta": new})


def delete_item(ctx: Context, request: Request) -> Reply:
    """DELETE /servers/{server_id}/metadata/{key}.  Errors: 404, 409."""
    instance, key = find_server(ctx, request.path["server_id"], f"{_P}:delete"), request.path["key"]

    def edit(tx: Transaction, present: Metadata) -> Metadata:
        del tx
        if key not in present:
            raise _no_item()
        return {name: value for name, value in present.items() if name != key}

    if key not in instance.metadata:
        raise _no_item()
    _edit(ctx, instance, "delete-metadata", edit)
    return Reply(204)


def _set(ctx: Context, request: Request, rule_name: str, edit: Callable[[Metadata], Metadata]) -> Metadata:
    """Replace the server's metadata by ``edit(present metadata)``, and return the new metadata.

    Raises: NotFound, Forbidden, Conflict, OverQuota.
    """
    instance = find_server(ctx, request.path["server_id"], f"{_P}:{rule_name}")
    limits = limits_of_project(ctx, instance.project_id)

    def within_limits(tx: Transaction, present: Metadata) -> Metadata:
        after = edit(present)
        most = limits(tx.connection, instance.user_id)["metadata_items"]
        if 0 <= most < len(after):
            raise OverQuota(f"Maximum number of metadata items exceeds {most}")
        return after

    return _edit(ctx, instance, "update-metadata", within_limits)


def _edit(ctx: Context, instance: Instance, kind: str, edit: Callable[[Transaction, Metadata], Metadata]) -> Metadata:
    """Replace the server's metadata by ``edit(tx, present metadata)`` in one transaction; return the new metadata.

    ``kind``: key of the action in the table of permitted states. Raises: Conflict, and errors of ``edit``.
    """
    check_allowed(ctx, instance, kind)

    def job(tx: Transaction) -> Metadata:
        after = edit(tx, instances.get(tx.connection, instance.uuid).metadata)
        instances.change(tx, instance.uuid, expected_states=NOTES[kind].states, metadata=dict(after))
        return after

    metadata = ctx.write(job)
    ctx.announce(
        ServerChanged(replace(instance, metadata=metadata), instance.vm_state, instance.task_state, Source.API)
    )
    return metadata


def _no_item() -> NotFound:
    return NotFound("Metadata item was not found")


ROUTES: Routes = {
    _ALL: {
        "GET": Endpoint(list_metadata, query=queries.NONE),
        "POST": Endpoint(merge_metadata, body=schemas.MERGE),
        "PUT": Endpoint(replace_metadata, body=schemas.REPLACE),
    },
    _ONE: {
        "GET": Endpoint(show_item, query=queries.NONE),
        "PUT": Endpoint(set_item, body=schemas.SET_ONE),
        "DELETE": Endpoint(delete_item),
    },
}
