# SPDX-License-Identifier: Apache-2.0
"""What network, volume, bare-metal and accelerator services tell of what they have done to servers.

Nothing here waits for a port, a volume or an accelerator, so of those events it is only noted that they came. A change
of power is taken over: the server follows, as if somebody had started or stopped it.
"""

import logging
from collections.abc import Mapping
from typing import Any

from kilonova.api.compute.schemas import server_external_events as schemas
from kilonova.api.http import Context, Endpoint, Reply, Request, Routes
from kilonova.api.policy import SERVICE_OR_ADMIN, rule
from kilonova.api.schemas import queries
from kilonova.db import instances
from kilonova.deadline import heeding
from kilonova.errors import NotFound, UnexpectedTaskState
from kilonova.model.instance import Instance, PowerState, VmState

LOG = logging.getLogger(__name__)
_RULE, _PATH = "os_compute_api:os-server-external-events:create", "/os-server-external-events"
RULES = (rule(_RULE, SERVICE_OR_ADMIN, "Tell of what happened to servers", ("POST", _PATH)),)
#: Tag of power-update → what follows, and from which state of the server.
_POWER: Mapping[str, tuple[str, VmState, PowerState]] = {
    "POWER_ON": ("start", VmState.STOPPED, PowerState.SHUTDOWN),
    "POWER_OFF": ("stop", VmState.ACTIVE, PowerState.RUNNING),
}


def create_events(ctx: Context, request: Request) -> Reply:
    """POST /os-server-external-events.  Since: 2.51 volume-extended, 2.76 power-update, 2.82, 2.93.

    200 when all events were taken, 207 when some were: each says so with a code of its own.  Errors: 404 for none.
    """
    ctx.authorize(_RULE)
    events = request.body["events"]
    with ctx.read() as connection:
        wanted = list(dict.fromkeys(event["server_uuid"] for event in events))
        servers = {instance.uuid: instance for instance in instances.get_many(connection, wanted)}
    views = []
    for event in heeding(events):
        instance = servers.get(event["server_uuid"])
        code = _refusal(event, instance)
        views.append({**event, "status": "completed" if code == 200 else "failed", "code": code})
        if code == 200 and instance is not None:
            _take(ctx, event, instance)
    if all(view["code"] != 200 for view in views):
        raise NotFound("No instances found for any event")
    return Reply(200 if all(view["code"] == 200 for view in views) else 207, {"events": views})


def _refusal(event: Mapping[str, Any], instance: Instance | None) -> int:
    """Return 200 for an event that is taken, or the code of what stands against it."""
    if instance is None:
        return 404
    if event["name"] == "volume-extended" and event.get("tag") is None:
        return 400
    return 200 if instance.host is not None else 422


def _take(ctx: Context, event: Mapping[str, Any], instance: Instance) -> None:
    name, tag = event["name"], event.get("tag")
    if name != "power-update":
        LOG.info("Server %s: nothing waits for %s:%s [%s]", instance.uuid, name, tag, ctx.request_id)
        return
    kind, vm_state, power_state = _POWER.get(tag or "", (None, None, None))
    if kind is None:
        LOG.warning("Server %s: %.40r is neither POWER_ON nor POWER_OFF [%s]", instance.uuid, tag, ctx.request_id)
        return
    if (instance.vm_state, instance.task_state, instance.power_state) != (vm_state, None, power_state):
        LOG.info("Server %s is %s: %s changes nothing [%s]", instance.uuid, instance.vm_state, tag, ctx.request_id)
        return
    try:
        ctx.backend.conductor.operations.power.change(instance.uuid, kind, ctx.requester)
    except (NotFound, UnexpectedTaskState) as error:  # somebody else was faster
        LOG.info("Server %s: %s changes nothing: %s [%s]", instance.uuid, tag, error.message, ctx.request_id)


ROUTES: Routes = {_PATH: {"POST": Endpoint(create_events, body=schemas.CREATE, query=queries.NONE)}}
