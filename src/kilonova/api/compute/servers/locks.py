# SPDX-License-Identifier: Apache-2.0
"""Lock a server against actions of its own project, and unlock it.  Source: spec COMPUTE_API §1.4."""

from collections.abc import Mapping

from kilonova.api.compute.schemas import server_locks as schemas
from kilonova.api.compute.servers.servers import find_server
from kilonova.api.http import Context, Endpoint, Reply, Request
from kilonova.api.policy import ADMIN, PROJECT_MEMBER_OR_ADMIN, action, rule
from kilonova.model.instance import Instance, LockedBy
from kilonova.notifications.events import ServerActed
from kilonova.notifications.message import Source

_P = "os_compute_api:os-lock-server"
RULES = (
    rule(f"{_P}:lock", PROJECT_MEMBER_OR_ADMIN, "Lock a server", action("lock")),
    rule(f"{_P}:unlock", PROJECT_MEMBER_OR_ADMIN, "Unlock a server", action("unlock")),
    rule(f"{_P}:unlock:unlock_override", ADMIN, "Unlock a server locked by another party", action("unlock")),
)


def lock(ctx: Context, request: Request) -> Reply:
    """Lock a server. The server may be in any state.  2.73 adds a reason.  Errors: 404."""
    instance = find_server(ctx, request.path["server_id"], f"{_P}:lock")
    given = request.body["lock"]
    reason = given.get("locked_reason") if isinstance(given, dict) and request.version >= schemas.REASONED else None
    locks = ctx.backend.conductor.operations.locks
    locked = locks.lock(instance, ctx.requester, _party(ctx, instance), reason)
    if locked is not None:
        ctx.announce(ServerActed("lock", None, locked, Source.API))
    return Reply(202)


def unlock(ctx: Context, request: Request) -> Reply:
    """Unlock a server.  Errors: 404; 403 if an administrator set the lock and policy denies unlock_override."""
    instance = find_server(ctx, request.path["server_id"], f"{_P}:unlock")
    _require_own_lock(ctx, instance)
    unlocked = ctx.backend.conductor.operations.locks.unlock(
        instance, ctx.requester, lambda present: _require_own_lock(ctx, present)
    )
    if unlocked is not None:
        ctx.announce(ServerActed("unlock", None, unlocked, Source.API))
    return Reply(202)


def _require_own_lock(ctx: Context, instance: Instance) -> None:
    """Raise Forbidden if the caller's party did not set the lock, and policy denies unlock_override to the caller.

    There are two parties: users of the server's project, and administrators from other projects.
    """
    if instance.locked_by not in {None, _party(ctx, instance)}:
        ctx.authorize(f"{_P}:unlock:unlock_override", project_id=instance.project_id)


def _party(ctx: Context, instance: Instance) -> LockedBy:
    return LockedBy.OWNER if ctx.project_id == instance.project_id else LockedBy.ADMIN


ACTIONS: Mapping[str, Endpoint] = {
    "lock": Endpoint(lock, body=schemas.LOCK),
    "unlock": Endpoint(unlock, body=schemas.UNLOCK),
}
