# SPDX-License-Identifier: Apache-2.0
"""Routes of a server's tags. Lists can be filtered by tags. Source: spec COMPUTE_API §2, rows 14 to 19. Since: 2.26."""

from collections.abc import Callable, Sequence
from typing import TypeVar
from urllib.parse import quote

from kilonova.api.compute.schemas import server_tags as schemas
from kilonova.api.compute.servers.servers import find_server
from kilonova.api.compute.servers.states import check_allowed
from kilonova.api.http import Context, Endpoint, Reply, Request, Routes
from kilonova.api.microversion import Version
from kilonova.api.policy import PROJECT_MEMBER_OR_ADMIN, PROJECT_READER_OR_ADMIN, rule
from kilonova.api.schemas import queries
from kilonova.db import instance_tags, instances
from kilonova.db.core.transaction import Transaction
from kilonova.errors import InvalidRequest, NotFound
from kilonova.model.instance import Instance
from kilonova.notifications.events import ServerChanged
from kilonova.notifications.message import Source

T = TypeVar("T")
_P = "os_compute_api:os-server-tags"
_ALL = "/servers/{server_id}/tags"
_ONE = f"{_ALL}/{{tag}}"
_SINCE = Version(2, 26)
RULES = (
    rule(f"{_P}:index", PROJECT_READER_OR_ADMIN, "List the tags of a server", ("GET", _ALL)),
    rule(f"{_P}:show", PROJECT_READER_OR_ADMIN, "Check whether a server has a tag", ("GET", _ONE)),
    rule(f"{_P}:update_all", PROJECT_MEMBER_OR_ADMIN, "Replace the tags of a server", ("PUT", _ALL)),
    rule(f"{_P}:delete_all", PROJECT_MEMBER_OR_ADMIN, "Remove all tags of a server", ("DELETE", _ALL)),
    rule(f"{_P}:update", PROJECT_MEMBER_OR_ADMIN, "Tag a server", ("PUT", _ONE)),
    rule(f"{_P}:delete", PROJECT_MEMBER_OR_ADMIN, "Remove a tag of a server", ("DELETE", _ONE)),
)


def list_tags(ctx: Context, request: Request) -> Reply:
    """GET /servers/{server_id}/tags.  Errors: 404."""
    instance = find_server(ctx, request.path["server_id"], f"{_P}:index")
    return Reply(200, {"tags": list(instance.tags)})


def replace_tags(ctx: Context, request: Request) -> Reply:
    """PUT /servers/{server_id}/tags.  Errors: 404, 409."""
    tags = tuple(dict.fromkeys(request.body["tags"]))
    _change(ctx, request, "update_all", "update-tags", lambda tx, uuid, _: instance_tags.replace(tx, uuid, tags))
    return Reply(200, {"tags": sorted(tags)})


def delete_tags(ctx: Context, request: Request) -> Reply:
    """DELETE /servers/{server_id}/tags.  Errors: 404, 409."""
    _change(ctx, request, "delete_all", "delete-tags", lambda tx, uuid, _: instance_tags.replace(tx, uuid, ()))
    return Reply(204)


def has_tag(ctx: Context, request: Request) -> Reply:
    """GET /servers/{server_id}/tags/{tag}.  Status 204 if the server has the tag.  Errors: 404."""
    instance = find_server(ctx, request.path["server_id"], f"{_P}:show")
    if request.path["tag"] not in instance.tags:
        raise _no_tag(instance.uuid, request.path["tag"])
    return Reply(204)


def add_tag(ctx: Context, request: Request) -> Reply:
    """PUT /servers/{server_id}/tags/{tag}.  Status 201 if the tag is new, 204 if the server already has it.

    Errors: 400 also for too many tags, 404, 409.
    """
    tag = request.path["tag"]

    def add(tx: Transaction, uuid: str, present: Sequence[str]) -> bool:
        schemas.IN_PATH.check({"tag": tag}, request.version)
        if tag in present:
            return False
        if len(present) >= schemas.MOST_TAGS:
            raise InvalidRequest(f"The number of tags exceeded the per-server limit {schemas.MOST_TAGS}", field="tag")
        instance_tags.add(tx, uuid, tag)
        return True

    if not _change(ctx, request, "update", "update-tag", add):
        return Reply(204)
    location = f"{request.root_url}/v2.1/servers/{request.path['server_id']}/tags/{quote(tag, safe='')}"
    return Reply(201, headers={"Location": location})


def delete_tag(ctx: Context, request: Request) -> Reply:
    """DELETE /servers/{server_id}/tags/{tag}.  Errors: 404, 409."""
    tag = request.path["tag"]

    def remove(tx: Transaction, uuid: str, present: Sequence[str]) -> None:
        if tag not in present:
            raise _no_tag(uuid, tag)
        instance_tags.replace(tx, uuid, [each for each in present if each != tag])

    _change(ctx, request, "delete", "delete-tag", remove)
    return Reply(204)


def _change(
    ctx: Context,
    request: Request,
    rule_name: str,
    kind: str,
    write: Callable[[Transaction, str, Sequence[str]], T],
) -> T:
    """Call ``write(tx, uuid, present tags)``, which changes the server's tags, and return its result.

    ``kind``: key of the action in the table of permitted states. Raises: NotFound, Forbidden, Conflict.
    """
    uuid = find_server(ctx, request.path["server_id"], f"{_P}:{rule_name}").uuid

    def job(tx: Transaction) -> tuple[T, Instance]:
        instance = instances.get(tx.connection, uuid)
        check_allowed(ctx, instance, kind)
        answer = write(tx, uuid, instance.tags)
        return answer, instances.get(tx.connection, uuid) if ctx.backend.announcer.is_on else instance

    answer, changed = ctx.write(job)
    ctx.announce(ServerChanged(changed, changed.vm_state, changed.task_state, Source.API))
    return answer


def _no_tag(uuid: str, tag: str) -> NotFound:
    return NotFound(f"Instance {uuid} has no tag '{tag}'")


ROUTES: Routes = {
    _ALL: {
        "GET": Endpoint(list_tags, query=queries.NONE, since=_SINCE),
        "PUT": Endpoint(replace_tags, body=schemas.REPLACE, since=_SINCE),
        "DELETE": Endpoint(delete_tags, since=_SINCE),
    },
    _ONE: {
        "GET": Endpoint(has_tag, query=queries.NONE, since=_SINCE),
        "PUT": Endpoint(add_tag, body=schemas.NO_BODY, since=_SINCE),
        "DELETE": Endpoint(delete_tag, since=_SINCE),
    },
}
