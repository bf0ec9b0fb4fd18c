# SPDX-License-Identifier: Apache-2.0
"""Routes that show the usages of a resource provider, and of a project."""

from typing import Any

from kilonova.api.http import Context, Endpoint, Reply, Request, Routes
from kilonova.api.microversion import Version
from kilonova.api.placement.policies import ADMIN_OR_PROJECT_READER_OR_SERVICE, rule
from kilonova.api.placement.requests import dated, gives_json, read_query
from kilonova.api.placement.resource_providers import find_provider
from kilonova.api.placement.schemas import usages as schemas
from kilonova.db import usages

_OF_PROVIDER = "/resource_providers/{uuid}/usages"
_TOTAL = "/usages"
RULES = (
    rule("placement:resource_providers:usages", "Show the usages of a provider", ("GET", _OF_PROVIDER)),
    rule(
        "placement:usages",
        "Show the usages of a project",
        ("GET", _TOTAL),
        check=ADMIN_OR_PROJECT_READER_OR_SERVICE,
    ),
)
_CONSUMER_TYPES = Version(1, 38)


@gives_json
def show_provider_usages(ctx: Context, request: Request) -> Reply:
    """GET /resource_providers/{uuid}/usages.  Errors: 404."""
    ctx.authorize("placement:resource_providers:usages")
    provider = find_provider(ctx, request)
    with ctx.read() as connection:
        used = usages.of_provider(connection, provider.id)
    return dated(request, {"resource_provider_generation": provider.generation, "usages": used})


@gives_json
def show_total_usages(ctx: Context, request: Request) -> Reply:
    """GET /usages?project_id=…  Since: 1.9; since 1.38 usages are grouped by consumer type.  Errors: 400."""
    ctx.authorize("placement:usages", project_id=request.param("project_id"))
    query = read_query(request, schemas.TOTAL)
    project_id, user_id = query["project_id"], query.get("user_id")
    used: Any
    with ctx.read() as connection:
        if request.version >= _CONSUMER_TYPES:
            used = usages.of_project_by_type(connection, project_id, user_id, query.get("consumer_type"))
        else:
            used = usages.of_project(connection, project_id, user_id)
    return dated(request, {"usages": used})


ROUTES: Routes = {
    _OF_PROVIDER: {"GET": Endpoint(show_provider_usages)},
    _TOTAL: {"GET": Endpoint(show_total_usages, since=Version(1, 9))},
}
