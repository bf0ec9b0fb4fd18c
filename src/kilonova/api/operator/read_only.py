# SPDX-License-Identifier: Apache-2.0
"""/operator/v1/read-only: the switch that makes the APIs of all control processes read-only."""

from typing import Any

from kilonova.api.compute.times import whole_seconds
from kilonova.api.http import Context, Endpoint, Reply, Request, Routes
from kilonova.api.operator.schemas import read_only as schemas
from kilonova.api.operator.schemas.parameters import NO_QUERY
from kilonova.api.policy import ADMIN, rule
from kilonova.db import switches

_PATH = "/v1/read-only"
RULES = (
    rule("kilonova:read_only:show", ADMIN, "Show whether the APIs are read-only", ("GET", f"/operator{_PATH}")),
    rule("kilonova:read_only:update", ADMIN, "Switch the APIs to read-only or back", ("PUT", f"/operator{_PATH}")),
)


def show_read_only(ctx: Context, request: Request) -> Reply:
    """GET /v1/read-only."""
    del request
    ctx.authorize("kilonova:read_only:show")
    return Reply(200, {"read_only": _view(ctx)})


def update_read_only(ctx: Context, request: Request) -> Reply:
    """PUT /v1/read-only.  The change takes effect in other control processes within a second."""
    ctx.authorize("kilonova:read_only:update")
    asked = request.body["read_only"]
    reason = str(asked.get("reason") or "")
    ctx.write(
        lambda tx: (
            switches.turn_on(tx, switches.READ_ONLY, reason)
            if asked["enabled"]
            else switches.turn_off(tx, switches.READ_ONLY)
        )
    )
    ctx.backend.writability.forget()
    return Reply(200, {"read_only": _view(ctx)})


def _view(ctx: Context) -> dict[str, Any]:
    with ctx.read() as connection:
        switch = switches.find(connection, switches.READ_ONLY)
    configured = ctx.backend.settings.api.read_only
    return {
        "enabled": configured or switch is not None,
        "configured": configured,
        "reason": None if switch is None else switch.reason,
        "since": None if switch is None else whole_seconds(switch.since),
    }


ROUTES: Routes = {
    _PATH: {
        "GET": Endpoint(show_read_only, query=NO_QUERY),
        "PUT": Endpoint(update_read_only, body=schemas.UPDATE, query=NO_QUERY, ends_read_only=True),
    }
}
