# SPDX-License-Identifier: Apache-2.0
"""Routes of quota classes. The limits of class ``default`` apply to every project that has no limits of its own."""

from kilonova.api.compute.quota_limits import change_limits, limits_of_class, limits_reply, require_id
from kilonova.api.compute.schemas import quotas as schemas
from kilonova.api.http import Context, Endpoint, Reply, Request, Routes
from kilonova.api.policy import ADMIN, rule
from kilonova.api.schemas import queries
from kilonova.db import quotas
from kilonova.db.core.transaction import Transaction
from kilonova.model.quota import Limits

_ONE = "/os-quota-class-sets/{class_name}"
_NAME = "quota_class_set"
RULES = (
    rule("os_compute_api:os-quota-class-sets:show", ADMIN, "Show the limits of a quota class", ("GET", _ONE)),
    rule("os_compute_api:os-quota-class-sets:update", ADMIN, "Set the limits of a quota class", ("PUT", _ONE)),
)


def show_class(ctx: Context, request: Request) -> Reply:
    """GET /os-quota-class-sets/{class}.  2.50 adds server groups and removes networks; 2.57 removes injected files."""
    ctx.authorize("os_compute_api:os-quota-class-sets:show")
    name = require_id(request.path["class_name"], "class")
    limits = limits_of_class(ctx, name)
    with ctx.read() as connection:
        return _reply(request, limits(connection), id=name)


def update_class(ctx: Context, request: Request) -> Reply:
    """PUT /os-quota-class-sets/{class}.  Errors: 400."""
    ctx.authorize("os_compute_api:os-quota-class-sets:update")
    name = require_id(request.path["class_name"], "class")

    def store(tx: Transaction, changed: Limits) -> None:
        quotas.set_class_limits(tx, name, changed)

    return _reply(request, change_limits(ctx, request.body[_NAME], limits_of_class(ctx, name), store))


def _reply(request: Request, limits: Limits, **more: str) -> Reply:
    return limits_reply(_NAME, schemas.class_resources(request.version), limits, **more)


ROUTES: Routes = {
    _ONE: {
        "GET": Endpoint(show_class, query=queries.NONE),
        "PUT": Endpoint(update_class, body=schemas.UPDATE_CLASS, query=queries.NONE),
    }
}
