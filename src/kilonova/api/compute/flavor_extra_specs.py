# SPDX-License-Identifier: Apache-2.0
"""Extra specs of flavors: list, show, create, update, delete."""

from collections.abc import Mapping
from typing import Any

from kilonova.api.compute.flavors import announce_change, find_visible
from kilonova.api.compute.schemas import flavor_extra_specs as schemas
from kilonova.api.http import Context, Endpoint, Reply, Request, Routes
from kilonova.api.microversion import Version
from kilonova.api.policy import ADMIN, PROJECT_READER_OR_ADMIN, rule
from kilonova.api.schemas import queries
from kilonova.db import flavors
from kilonova.errors import InvalidRequest, NotFound

_ALL, _ONE = "/flavors/{flavor_id}/os-extra_specs", "/flavors/{flavor_id}/os-extra_specs/{key}"
RULES = (
    rule("os_compute_api:os-flavor-extra-specs:show", PROJECT_READER_OR_ADMIN, "Show an extra spec", ("GET", _ONE)),
    rule("os_compute_api:os-flavor-extra-specs:create", ADMIN, "Set extra specs", ("POST", _ALL)),
    rule("os_compute_api:os-flavor-extra-specs:update", ADMIN, "Set one extra spec", ("PUT", _ONE)),
    rule("os_compute_api:os-flavor-extra-specs:delete", ADMIN, "Remove an extra spec", ("DELETE", _ONE)),
)


def list_extra_specs(ctx: Context, request: Request) -> Reply:
    """GET /flavors/{flavor_id}/os-extra_specs.  Errors: 404."""
    ctx.authorize("os_compute_api:os-flavor-extra-specs:index")
    return Reply(200, {"extra_specs": dict(find_visible(ctx, request.path["flavor_id"]).extra_specs)})


def show_extra_spec(ctx: Context, request: Request) -> Reply:
    """GET /flavors/{flavor_id}/os-extra_specs/{key}.  Errors: 404."""
    ctx.authorize("os_compute_api:os-flavor-extra-specs:show")
    flavor_id, key = request.path["flavor_id"], request.path["key"]
    specs = find_visible(ctx, flavor_id).extra_specs
    if key not in specs:
        raise NotFound(f"Flavor {flavor_id} has no extra specs with key {key}.")
    return Reply(200, {key: specs[key]})


def create_extra_specs(ctx: Context, request: Request) -> Reply:
    """POST /flavors/{flavor_id}/os-extra_specs.  Adds or changes extra specs.  Errors: 400, 404.

    Since 2.86, keys and values in known namespaces are validated.
    """
    ctx.authorize("os_compute_api:os-flavor-extra-specs:create")
    specs = _checked(request.body["extra_specs"], request.version)
    ctx.write(lambda tx: flavors.merge_extra_specs(tx, request.path["flavor_id"], specs))
    announce_change(ctx, request.path["flavor_id"])
    return Reply(200, {"extra_specs": specs})


def update_extra_spec(ctx: Context, request: Request) -> Reply:
    """PUT /flavors/{flavor_id}/os-extra_specs/{key}.  The only key in the body must be ``key``.  Errors: 400, 404."""
    ctx.authorize("os_compute_api:os-flavor-extra-specs:update")
    key = request.path["key"]
    if key not in request.body:
        raise InvalidRequest(f"Request body and URI mismatch: the body must have the key {key}.", field=key)
    specs = _checked(request.body, request.version)
    ctx.write(lambda tx: flavors.merge_extra_specs(tx, request.path["flavor_id"], specs))
    announce_change(ctx, request.path["flavor_id"])
    return Reply(200, specs)


def delete_extra_spec(ctx: Context, request: Request) -> Reply:
    """DELETE /flavors/{flavor_id}/os-extra_specs/{key}.  Errors: 404."""
    ctx.authorize("os_compute_api:os-flavor-extra-specs:delete")
    ctx.write(lambda tx: flavors.delete_extra_spec(tx, request.path["flavor_id"], request.path["key"]))
    announce_change(ctx, request.path["flavor_id"])
    return Reply(200)


def _checked(asked: Mapping[str, Any], version: Version) -> dict[str, str]:
    """Validate extra specs, and return them with all values as strings. Raises: InvalidRequest."""
    specs = {key: value if isinstance(value, str) else str(value) for key, value in asked.items()}
    for key, value in specs.items():
        schemas.check_spec(key, value, version)
    return specs


ROUTES: Routes = {
    _ALL: {
        "GET": Endpoint(list_extra_specs, query=queries.NONE),
        "POST": Endpoint(create_extra_specs, body=schemas.CREATE, query=queries.NONE),
    },
    _ONE: {
        "GET": Endpoint(show_extra_spec, query=queries.NONE),
        "PUT": Endpoint(update_extra_spec, body=schemas.UPDATE, query=queries.NONE),
        "DELETE": Endpoint(delete_extra_spec, query=queries.NONE),
    },
}
