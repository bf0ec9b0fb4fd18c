# SPDX-License-Identifier: Apache-2.0
"""Flavor access: projects that may use a private flavor."""

from collections.abc import Sequence

from kilonova.api.compute.actions import run_action
from kilonova.api.compute.flavors import announce_change
from kilonova.api.compute.schemas import flavor_access as schemas
from kilonova.api.http import Context, Endpoint, Reply, Request, Routes
from kilonova.api.microversion import Version
from kilonova.api.policy import ADMIN, action, rule
from kilonova.api.schemas import queries
from kilonova.db import flavors
from kilonova.db.core.transaction import Transaction
from kilonova.errors import Conflict, NotFound

_ACTION = "/flavors/{flavor_id}/action"
RULES = (
    rule(
        "os_compute_api:os-flavor-access:add_tenant_access",
        ADMIN,
        "Share a private flavor",
        action("addTenantAccess", _ACTION),
    ),
    rule(
        "os_compute_api:os-flavor-access:remove_tenant_access",
        ADMIN,
        "Stop sharing a private flavor",
        action("removeTenantAccess", _ACTION),
    ),
)


def list_access(ctx: Context, request: Request) -> Reply:
    """GET /flavors/{flavor_id}/os-flavor-access.  Errors: 404, also for a public flavor."""
    ctx.authorize("os_compute_api:os-flavor-access")
    flavor_id = request.path["flavor_id"]
    with ctx.read() as connection:
        if flavors.get(connection, flavor_id).is_public:
            raise NotFound("Access list not available for public flavors.")
        return _reply(flavor_id, flavors.projects(connection, flavor_id))


def act_on_flavor(ctx: Context, request: Request) -> Reply:
    """POST /flavors/{flavor_id}/action."""
    return run_action(ctx, request, ACTIONS)


def add_tenant(ctx: Context, request: Request) -> Reply:
    """Give a project access to a flavor.

    Errors: 400 also for an unknown project; 404; 409 if the project has access already, or, since 2.7, if the flavor is
    public.
    """
    ctx.authorize("os_compute_api:os-flavor-access:add_tenant_access")
    flavor_id, project_id = request.path["flavor_id"], request.body["addTenantAccess"]["tenant"]
    ctx.backend.projects.require(project_id, token=ctx.credentials.token)

    def job(tx: Transaction) -> tuple[str, ...]:
        if request.version >= Version(2, 7) and flavors.get(tx.connection, flavor_id).is_public:
            raise Conflict("Can not add access to a public flavor.")
        flavors.add_project(tx, flavor_id, project_id)
        return flavors.projects(tx.connection, flavor_id)

    projects = ctx.write(job)
    announce_change(ctx, flavor_id)
    return _reply(flavor_id, projects)


def remove_tenant(ctx: Context, request: Request) -> Reply:
    """Remove a project's access to a flavor.  Errors: 400, 404."""
    ctx.authorize("os_compute_api:os-flavor-access:remove_tenant_access")
    flavor_id, project_id = request.path["flavor_id"], request.body["removeTenantAccess"]["tenant"]

    def job(tx: Transaction) -> tuple[str, ...]:
        flavors.remove_project(tx, flavor_id, project_id)
        return flavors.projects(tx.connection, flavor_id)

    projects = ctx.write(job)
    announce_change(ctx, flavor_id)
    return _reply(flavor_id, projects)


def _reply(flavor_id: str, projects: Sequence[str]) -> Reply:
    return Reply(200, {"flavor_access": [{"flavor_id": flavor_id, "tenant_id": project} for project in projects]})


ACTIONS = {
    "addTenantAccess": Endpoint(add_tenant, body=schemas.ADD),
    "removeTenantAccess": Endpoint(remove_tenant, body=schemas.REMOVE),
}
ROUTES: Routes = {
    "/flavors/{flavor_id}/os-flavor-access": {"GET": Endpoint(list_access, query=queries.NONE)},
    _ACTION: {"POST": Endpoint(act_on_flavor, query=queries.NONE)},
}
