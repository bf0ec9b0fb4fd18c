# SPDX-License-Identifier: Apache-2.0
"""External events about servers, sent by network, volume, bare-metal and accelerator services.

Events about ports go to the workflows that wait for them. Those about volumes and accelerators are only logged, since
no operation waits for them. The event power-update starts or stops the server, as a request of a user would.
"""

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from kilonova.api.compute.schemas import server_external_events as schemas
from kilonova.api.http import Context, Endpoint, Reply, Request, Routes
from kilonova.api.policy import SERVICE_OR_ADMIN, rule
from kilonova.api.schemas import queries
from kilonova.db import instances
from kilonova.deadline import heeding
from kilonova.errors import NotFound, UnexpectedTaskState
from kilonova.model.instance import Instance, PowerState, VmState
from kilonova.model.network_event import COMPLETED, NetworkEvent, NetworkEventName

_ABOUT_PORTS = frozenset(name.value for name in NetworkEventName)
LOG = logging.getLogger(__name__)
_RULE, _PATH = "os_compute_api:os-server-external-events:create", "/os-server-external-events"
RULES = (rule(_RULE, SERVICE_OR_ADMIN, "Send external events about servers", ("POST", _PATH)),)
#: Tag of a power-update event → the operation that it starts, and the required vm_state and power_state of the server.
_POWER: Mapping[str, tuple[str, VmState, PowerState]] = {
    "POWER_ON": ("start", VmState.STOPPED, PowerState.SHUTDOWN),
    "POWER_OFF": ("stop", VmState.ACTIVE, PowerState.RUNNING),
}


def create_events(ctx: Context, request: Request) -> Reply:
    """POST /os-server-external-events.

    Status 200 if all events are accepted, else 207. The reply has a code for each event. New events:
    2.51 volume-extended, 2.76 power-update, 2.82 accelerator-request-bound, 2.93 volume-reimaged.
    """
    ctx.authorize(_RULE)
    events = request.body["events"]
    with ctx.read() as connection:
        wanted = list(dict.fromkeys(event["server_uuid"] for event in events))
        servers = {instance.uuid: instance for instance in instances.get_many(connection, wanted)}
    views, accepted = [], []
    for event in heeding(events):
        instance = servers.get(event["server_uuid"])
        code = _refusal(event, instance)
        views.append({**event, "status": "completed" if code == 200 else "failed", "code": code})
        if code == 200 and instance is not None:
            accepted.append((event, instance))
    _take(ctx, accepted)
    return Reply(200 if all(view["code"] == 200 for view in views) else 207, {"events": views})


def _refusal(event: Mapping[str, Any], instance: Instance | None) -> int:
    """Return the event's code in the reply: 200 if the event is accepted, otherwise an error status."""
    if instance is None:
        return 404
    if event["name"] == "volume-extended" and event.get("tag") is None:
        return 400
    return 200 if instance.host is not None else 422


def _take(ctx: Context, accepted: Sequence[tuple[Mapping[str, Any], Instance]]) -> None:
    """Act on accepted events: those about ports are stored together, before the others."""
    others, of_network = [], []
    for event, instance in accepted:
        if ctx.backend.network is not None and event["name"] in _ABOUT_PORTS:
            status = event.get("status", COMPLETED)
            name = NetworkEventName(event["name"])
            of_network.append(NetworkEvent(name, instance.uuid, event.get("tag") or "", status))
        else:
            others.append((event, instance))
    ctx.backend.conductor.operations.external_events.take(of_network)
    for event, instance in others:
        tag = event.get("tag")
        if event["name"] == "power-update":
            _change_power(ctx, tag, instance)
        else:
            known = instance.uuid, event["name"], tag, ctx.request_id
            LOG.info("Server %s: event %s:%s ignored, nothing waits for it [%s]", *known)


def _change_power(ctx: Context, tag: str | None, instance: Instance) -> None:
    kind, vm_state, power_state = _POWER.get(tag or "", (None, None, None))
    if kind is None:
        LOG.warning("Server %s: power-update with unknown tag %.40r ignored [%s]", instance.uuid, tag, ctx.request_id)
        return
    if (instance.vm_state, instance.task_state, instance.power_state) != (vm_state, None, power_state):
        LOG.info("Server %s is %s: power-update %s ignored [%s]", instance.uuid, instance.vm_state, tag, ctx.request_id)
        return
    try:
        ctx.backend.conductor.operations.power.change(instance.uuid, kind, ctx.requester)
    except (NotFound, UnexpectedTaskState) as error:  # another request changed the server meanwhile
        LOG.info("Server %s: power-update %s ignored: %s [%s]", instance.uuid, tag, error.message, ctx.request_id)


ROUTES: Routes = {_PATH: {"POST": Endpoint(create_events, body=schemas.CREATE, query=queries.NONE)}}
