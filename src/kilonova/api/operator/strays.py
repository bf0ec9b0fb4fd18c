# SPDX-License-Identifier: Apache-2.0
"""Routes below /operator/v1/strays: stray guests, which are not on the host that is recorded for their server.

The list also has servers whose guest is missing on their host.
"""

from typing import Any

from kilonova.api.compute.links import next_link
from kilonova.api.compute.times import whole_seconds
from kilonova.api.http import Context, Endpoint, Reply, Request, Routes, integer_param
from kilonova.api.operator.known_names import require_host
from kilonova.api.operator.schemas import strays as schemas
from kilonova.api.operator.schemas.parameters import NO_QUERY
from kilonova.api.policy import ADMIN, rule
from kilonova.api.validation import invalid_parameter
from kilonova.db import stray_guests
from kilonova.errors import NotFound
from kilonova.model.found_guest import StrayGuest, StrayKind

RULES = (
    rule("kilonova:strays:list", ADMIN, "List stray guests", ("GET", "/operator/v1/strays")),
    rule("kilonova:strays:remove", ADMIN, "Remove a stray guest", ("POST", "/operator/v1/strays/remove")),
)
_PAGE = 100
_OLD_BACKUP = "If the database was restored from a backup, restore a newer one."


def list_strays(ctx: Context, request: Request) -> Reply:
    """GET /v1/strays.  Errors: 400 naming the parameter, also for a marker that is no longer in the list."""
    ctx.authorize("kilonova:strays:list")
    asked = integer_param(request, "limit")
    limit = min(_PAGE if asked is None else asked, ctx.backend.settings.api.max_limit)
    marker, host = integer_param(request, "marker"), request.param("host")
    with ctx.read() as connection:
        try:
            found = stray_guests.list_page(connection, host=host, limit=limit + 1, marker=marker)
        except NotFound as error:
            raise invalid_parameter("marker", marker, f"{error.message} Restart from the first page.") from None
        if not found:
            require_host(connection, "host", host)
    body: dict[str, Any] = {"strays": [_view(each) for each in found[:limit]]}
    if limit and len(found) > limit:
        body["strays_links"] = [next_link(request, str(found[limit - 1].id))]
    return Reply(200, body)


def remove_stray(ctx: Context, request: Request) -> Reply:
    """POST /v1/strays/remove.  Removes a stray guest from a host.

    Errors: 404; 409 if the guest's server is recorded on this host, or if the guest lacks Kilonova's mark.
    """
    ctx.authorize("kilonova:strays:remove")
    host, uuid = request.body["remove"]["host"], request.body["remove"]["guest"]
    asked = ctx.backend.conductor.strays.remove(host, uuid, ctx.requester)
    return Reply(202, {"removal": {"host": host, "guest": uuid, "host_was_asked": asked}})


# --- views ------------------------------------------------------------------------------------------------------------


def _view(odd: StrayGuest) -> dict[str, Any]:
    what, remedy = _words(odd)
    return {
        "id": odd.id,
        "host": odd.host,
        "guest": odd.instance_uuid,
        "reason": odd.oddity.value,
        "power_state": odd.power_state.name.lower() if odd.is_stray else None,
        "recorded_host": odd.recorded_host,
        "since": whole_seconds(odd.since),
        "what": what,
        "remedy": remedy,
    }


def _words(odd: StrayGuest) -> tuple[str, str]:
    """Return a description of the stray guest, and what the operator can do about it."""
    otherwise = "Otherwise, if this guest is not needed, remove it."
    elsewhere = f"Its server is recorded on host {odd.recorded_host}, and no record says that it left this host."
    nowhere = "Its server is recorded on no host, and no record says that it left this host."
    newer = "A removal record names the guest, but the guest is newer than the record."
    mark = "The guest lacks Kilonova's mark, so Kilonova does not touch it."
    return {
        StrayKind.UNKNOWN: ("The database has no server with this id.", f"{_OLD_BACKUP} {otherwise}"),
        StrayKind.ELSEWHERE: (
            elsewhere,
            f"Check which of the two guests is in use. {_OLD_BACKUP} Otherwise remove this one, or delete the server.",
        ),
        StrayKind.NOWHERE: (nowhere, f"{_OLD_BACKUP} {otherwise}"),
        StrayKind.NEWER: (newer, f"{_OLD_BACKUP} {otherwise}"),
        StrayKind.UNMARKED: (mark, "If the guest is not needed, remove it with the tools of the hypervisor."),
        StrayKind.MISSING: (
            "The server is recorded on this host, which has no such guest.",
            f"{_OLD_BACKUP} If the guest is on another host, this list contains it. Otherwise delete the server.",
        ),
    }[odd.oddity]


ROUTES: Routes = {
    "/v1/strays": {"GET": Endpoint(list_strays, query=schemas.LIST)},
    "/v1/strays/remove": {"POST": Endpoint(remove_stray, body=schemas.REMOVE, query=NO_QUERY)},
}
