# SPDX-License-Identifier: Apache-2.0
"""Compute services: list, enable, disable, force down, delete."""

from collections.abc import Callable, Mapping
from typing import Any

from kilonova.api.compute.availability_zones import latest_news, zone_of
from kilonova.api.compute.identifiers import integer_id, uuid_id
from kilonova.api.compute.schemas import services as schemas
from kilonova.api.compute.times import stored_time
from kilonova.api.http import Context, Endpoint, Reply, Request, Routes
from kilonova.api.microversion import Version
from kilonova.api.policy import ADMIN, rule
from kilonova.api.schemas import queries
from kilonova.api.schemas.types import as_bool
from kilonova.db import agent_sessions, aggregates, services
from kilonova.db.core.transaction import Transaction
from kilonova.deadline import heeding
from kilonova.errors import InvalidRequest, NotFound
from kilonova.model.host import COMPUTE, Service
from kilonova.notifications.events import ServiceActed

_ONE = "/os-services/{service_id}"
RULES = (
    rule("os_compute_api:os-services:list", ADMIN, "List services", ("GET", "/os-services")),
    rule("os_compute_api:os-services:update", ADMIN, "Enable, disable or force down a service", ("PUT", _ONE)),
    rule("os_compute_api:os-services:delete", ADMIN, "Delete a service", ("DELETE", _ONE)),
)
_BY_UUID = Version(2, 53)


def list_services(ctx: Context, request: Request) -> Reply:
    """GET /os-services.  2.11 adds forced_down.  Since 2.53 the field ``id`` is a uuid.

    With ``with_versions=true``, which Nova does not have, the reply shows release and message version of each service.
    """
    ctx.authorize("os_compute_api:os-services:list")
    with ctx.read() as connection:
        found = services.list_all(connection, host=request.param("host"), binary=request.param("binary"))
        zones = aggregates.zones_of_hosts(connection)
        versions = agent_sessions.versions(connection) if request.param("with_versions") == "true" else None
    views = [service_view(ctx, request, service, zones) for service in heeding(found)]
    if versions is not None:
        for service, view in zip(found, views, strict=True):
            spoken = versions.get((service.host, service.binary == COMPUTE), agent_sessions.UNKNOWN)
            view |= {"release": spoken.release, "message_version": spoken.messages}
    return Reply(200, {"services": views})


def update_service(ctx: Context, request: Request) -> Reply:
    """PUT /os-services/{service_id}.  Until 2.52 ``service_id`` is the name of an action, since 2.53 a uuid."""
    ctx.authorize("os_compute_api:os-services:update")
    return _update(ctx, request) if request.version >= _BY_UUID else _update_by_verb(ctx, request)


def _update(ctx: Context, request: Request) -> Reply:
    """Update a service, since 2.53. The reply shows the service in full.  Errors: 400, 404."""
    uuid, asked = uuid_id(request.path["service_id"], "service id"), request.body
    status, reason = asked.get("status"), asked.get("disabled_reason")
    if "disabled_reason" in asked and status != "disabled":
        raise InvalidRequest("Specifying disabled_reason requires that status is 'disabled'.", field="disabled_reason")
    if status is None and "forced_down" not in asked:
        raise InvalidRequest("No updates were requested. Fields 'status' or 'forced_down' should be specified.")

    def job(tx: Transaction) -> tuple[Service, Mapping[str, str]]:
        service = services.get(tx.connection, uuid)
        _require_compute(service)
        changed = services.update(
            tx,
            uuid,
            disabled=None if status is None else status == "disabled",
            reason=services.UNSET if status is None else reason,
            forced_down=as_bool(asked["forced_down"]) if "forced_down" in asked else None,
        )
        return changed, aggregates.zones_of_hosts(tx.connection)

    changed, zones = ctx.write(job)
    ctx.announce(ServiceActed("update", changed))
    return Reply(200, {"service": service_view(ctx, request, changed, zones)})


def _update_by_verb(ctx: Context, request: Request) -> Reply:
    """Run the action in the path, until 2.52: enable, disable (also with a reason), force down (since 2.11).

    Errors: 400, 404 also for an unknown action.
    """
    verb, asked = request.path["service_id"], request.body
    make_change = _VERBS.get(verb)
    if make_change is None or (verb == "force-down" and request.version < Version(2, 11)):
        raise NotFound(f"Unknown action: {verb}.")
    change = make_change(asked)

    def job(tx: Transaction) -> Service:
        service = services.get_by_host(tx.connection, asked["host"], asked["binary"])
        _require_compute(service)
        return services.update(tx, service.uuid, **change)

    changed = ctx.write(job)
    ctx.announce(ServiceActed("update", changed))
    view: dict[str, Any] = {"host": changed.host, "binary": changed.binary}
    if verb == "force-down":
        view["forced_down"] = changed.forced_down
    else:
        view["status"] = _status(changed)
    if verb == "disable-log-reason":
        view["disabled_reason"] = changed.disabled_reason
    return Reply(200, {"service": view})


def delete_service(ctx: Context, request: Request) -> Reply:
    """DELETE /os-services/{service_id}.  ``service_id`` is a number until 2.52, and a uuid since 2.53.

    Errors: 400, 404; 409 while the host has servers, allocations or moves.
    """
    ctx.authorize("os_compute_api:os-services:delete")
    given, only_down = request.path["service_id"], ctx.backend.settings.api.delete_only_down_services
    uuid = uuid_id(given, "service id") if request.version >= _BY_UUID else None
    number = integer_id(given, "service id") if uuid is None else None

    def job(tx: Transaction) -> Service:
        found = services.get(tx.connection, str(uuid)) if number is None else services.get_by_id(tx.connection, number)
        services.delete(tx, found.uuid, only_down=only_down)
        return found

    ctx.announce(ServiceActed("delete", ctx.write(job)))
    return Reply(204)


def service_view(ctx: Context, request: Request, service: Service, zones: Mapping[str, str]) -> dict[str, Any]:
    """Return a service's view at the request's microversion."""
    settings = ctx.backend.settings.compute
    view: dict[str, Any] = {
        "id": service.uuid if request.version >= _BY_UUID else service.id,
        "binary": service.binary,
        "host": service.host,
        "zone": zone_of(service, zones, settings),
        "status": _status(service),
        "state": "up" if service.is_up else "down",
        "updated_at": stored_time(latest_news(service)),
        "disabled_reason": service.disabled_reason,
    }
    if request.version >= Version(2, 11):
        view["forced_down"] = service.forced_down
    return view


def _status(service: Service) -> str:
    return "disabled" if service.disabled else "enabled"


def _require_compute(service: Service) -> None:
    if service.binary != COMPUTE:
        raise InvalidRequest(
            f"Updating a {service.binary} service is not supported. Only {COMPUTE} services can be updated.",
            field="binary",
        )


def _given(asked: Mapping[str, Any], field: str) -> Any:
    if field not in asked:
        raise InvalidRequest(f"Missing field {field}.", field=field)
    return asked[field]


_VERBS: Mapping[str, Callable[[Mapping[str, Any]], dict[str, Any]]] = {
    "enable": lambda _: {"disabled": False, "reason": None},
    "disable": lambda _: {"disabled": True, "reason": None},
    "disable-log-reason": lambda asked: {"disabled": True, "reason": _given(asked, "disabled_reason")},
    "force-down": lambda asked: {"forced_down": as_bool(_given(asked, "forced_down"))},
}
ROUTES: Routes = {
    "/os-services": {"GET": Endpoint(list_services, query=schemas.LIST)},
    _ONE: {
        "PUT": Endpoint(update_service, body=schemas.UPDATE, query=queries.NONE),
        "DELETE": Endpoint(delete_service, query=queries.NONE),
    },
}
