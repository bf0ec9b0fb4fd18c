# SPDX-License-Identifier: Apache-2.0
"""Routes below /operator/v1/stray-ports: ports without a server, and interfaces of servers without a port."""

from typing import Any

from kilonova.api.compute.links import next_link
from kilonova.api.http import Context, Endpoint, Reply, Request, Routes, integer_param
from kilonova.api.operator.schemas import stray_ports as schemas
from kilonova.api.operator.schemas.parameters import NO_QUERY
from kilonova.api.policy import ADMIN, rule
from kilonova.api.validation import invalid_parameter
from kilonova.deadline import heeding
from kilonova.errors import InvalidRequest, NotFound
from kilonova.model.stray_port import StrayPort, StrayPortKind

RULES = (
    rule("kilonova:stray-ports:list", ADMIN, "List stray ports", ("GET", "/operator/v1/stray-ports")),
    rule("kilonova:stray-ports:remove", ADMIN, "Delete a stray port", ("POST", "/operator/v1/stray-ports/remove")),
)
_PAGE = 1000
_WORDS = {
    StrayPortKind.DELETED: (
        "The server of the port was deleted.",
        "Delete it: kilonova audit ports --delete. If Kilonova did not create it, delete it in the network service.",
    ),
    StrayPortKind.UNKNOWN: (
        "The database has no server with the id that the port names as its device.",
        (
            "The server may belong to another cloud, may have been purged, or may be newer than the backup from which "
            "the database was restored. Otherwise delete the port in the network service."
        ),
    ),
    StrayPortKind.UNUSED: (
        "The server that the port names as its device has no interface on the port.",
        "If no guest uses the port, delete it in the network service; the deletion of the server removes it, too.",
    ),
    StrayPortKind.MISSING: (
        "The server has an interface on a port that is gone, or that belongs to another device.",
        "Detach the interface while the server is active or stopped: openstack server remove port SERVER PORT.",
    ),
}


def list_stray_ports(ctx: Context, request: Request) -> Reply:
    """GET /v1/stray-ports.  A page may have fewer items than its limit, or none, and a link to the next page.

    Errors: 400 naming the parameter, also for a marker whose port is gone; 409 without a network service; 503 if the
    service does not answer.
    """
    ctx.authorize("kilonova:stray-ports:list")
    asked, marker = integer_param(request, "limit"), request.param("marker")
    limit = min(_PAGE if asked is None else asked, ctx.backend.settings.api.max_limit)
    try:
        page = ctx.backend.conductor.operations.stray_ports.page(marker, limit)
    except NotFound:
        raise invalid_parameter("marker", marker, "Its port is gone. Restart from the first page.") from None
    except InvalidRequest as error:
        raise invalid_parameter("marker", marker, error.message) from None
    body: dict[str, Any] = {"stray_ports": [_view(each) for each in heeding(page.strays)]}
    if limit and page.following is not None:
        body["stray_ports_links"] = [next_link(request, page.following)]
    return Reply(200, body)


def remove_stray_port(ctx: Context, request: Request) -> Reply:
    """POST /v1/stray-ports/remove.  Deletes a stray port that Kilonova created.

    Errors: 404 if the port is not stray; 409 if its server is not known as deleted, or Kilonova did not create it.
    """
    ctx.authorize("kilonova:stray-ports:remove")
    ctx.backend.conductor.operations.stray_ports.remove(request.body["remove"]["port"], ctx.requester)
    return Reply(204)


def _view(stray: StrayPort) -> dict[str, Any]:
    what, remedy = _WORDS[stray.kind]
    return {
        "port": stray.port_id,
        "server": stray.instance_uuid,
        "reason": stray.kind.value,
        "project_id": stray.project_id,
        "host": stray.host,
        "created_at": stray.created_at,
        "created_by_kilonova": stray.created,
        "removable": stray.is_removable,
        "what": what,
        "remedy": remedy,
    }


ROUTES: Routes = {
    "/v1/stray-ports": {"GET": Endpoint(list_stray_ports, query=schemas.LIST)},
    "/v1/stray-ports/remove": {"POST": Endpoint(remove_stray_port, body=schemas.REMOVE, query=NO_QUERY)},
}
