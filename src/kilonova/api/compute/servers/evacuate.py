# SPDX-License-Identifier: Apache-2.0
"""Evacuation of servers from a host that is down.  Source: spec COMPUTE_API §1.4."""

from collections.abc import Mapping

from kilonova.api.compute.bodies.moves import Evacuation
from kilonova.api.compute.schemas import server_evacuate as schemas
from kilonova.api.compute.servers.create import generated_password
from kilonova.api.compute.servers.servers import find_server
from kilonova.api.compute.servers.states import check_allowed, host_is_up
from kilonova.api.http import Context, Endpoint, Reply, Request
from kilonova.api.microversion import Version
from kilonova.api.policy import ADMIN, action, rule
from kilonova.api.schemas.types import as_bool
from kilonova.api.typed_body import read_typed
from kilonova.api.validation import invalid_field
from kilonova.db import services
from kilonova.errors import InvalidRequest, NotFound
from kilonova.model.instance import Instance

_P = "os_compute_api:os-evacuate"
RULES = (rule(_P, ADMIN, "Evacuate a server from a host that is down", action("evacuate")),)
#: First microversion whose request does not contain ``onSharedStorage``, and whose reply has no body.
_NO_ANSWER = Version(2, 14)
#: First microversion in which the scheduler's filters apply to a requested host; before 2.68 ``force`` bypasses them.
_FORCE_ON_REQUEST = Version(2, 29)
_NEVER_FORCED = Version(2, 68)
#: First microversion in which a server is stopped on the new host after an evacuation.
_ARRIVES_STOPPED = Version(2, 95)


def evacuate(ctx: Context, request: Request) -> Reply:
    """Rebuild a server on another host, because its host is down.  Errors: 400 also if its host is up, 404, 409.

    2.14 removes the reply's body and ``onSharedStorage``. 2.29 to 2.67 accept ``force``. Since 2.95 the server is
    stopped on the new host.
    """
    instance = find_server(ctx, request.path["server_id"], _P)
    asked, version = read_typed(Evacuation, request.body["evacuate"]), request.version
    check_allowed(ctx, instance, "evacuate")
    if as_bool(asked.on_shared_storage):
        raise invalid_field("onSharedStorage", "Shared storage is not supported; the server is rebuilt from its image.")
    host = _destination(ctx, instance, asked.host)
    if host_is_up(ctx, instance.host):
        raise InvalidRequest(f"The compute service of host {instance.host} is still in use.")
    forced = _forced(version, asked)
    stops = version >= _ARRIVES_STOPPED
    ctx.backend.conductor.operations.evacuations.begin(
        instance.uuid, instance.host, ctx.requester, host=host, forced=forced, stops=stops
    )
    if version >= _NO_ANSWER:
        return Reply(200)
    admin_pass = generated_password(ctx, asked.admin_pass)
    return Reply(200, {} if admin_pass is None else {"adminPass": admin_pass})


def _destination(ctx: Context, instance: Instance, host: str | None) -> str | None:
    """Return the name of the requested host as it is stored, which may differ from the request in upper and lower case.

    Raises: NotFound; InvalidRequest if the server is on this host.
    """
    if host is None:
        return None
    with ctx.read() as connection:
        service = services.find_by_host(connection, host)
    if service is None:
        raise NotFound(f"Compute host {host} could not be found.")
    if service.host == instance.host:
        raise invalid_field("host", "The target host can't be the same one.")
    return service.host


def _forced(version: Version, asked: Evacuation) -> bool:
    """Whether the requested host bypasses the scheduler's filters. Raises: InvalidRequest."""
    if version < _FORCE_ON_REQUEST:
        return asked.host is not None
    forced = version < _NEVER_FORCED and as_bool(asked.force)
    if forced and asked.host is None:
        raise invalid_field("force", "The field is allowed only together with host.")
    return forced


ACTIONS: Mapping[str, Endpoint] = {"evacuate": Endpoint(evacuate, body=schemas.EVACUATE)}
