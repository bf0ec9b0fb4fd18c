# SPDX-License-Identifier: Apache-2.0
"""Flavors: list, show, create, update the description, delete."""

from typing import Any

from kilonova.api.compute.bodies.flavors import NewFlavor
from kilonova.api.compute.links import bookmark_links, next_page
from kilonova.api.compute.schemas import flavors as schemas
from kilonova.api.http import Context, Endpoint, Reply, Request, Routes, integer_param
from kilonova.api.microversion import Version
from kilonova.api.policy import ADMIN, PROJECT_READER_OR_ADMIN, rule
from kilonova.api.schemas.types import MAX_FLOAT, MAX_INTEGER, as_bool
from kilonova.api.typed_body import read_typed
from kilonova.api.validation import invalid_field
from kilonova.db import flavors
from kilonova.db.core.transaction import Transaction
from kilonova.deadline import heeding
from kilonova.errors import InvalidRequest, NotFound
from kilonova.identifiers import new_uuid
from kilonova.model.flavor import Flavor
from kilonova.notifications.events import FlavorActed

RULES = (
    rule("os_compute_api:os-flavor-manage:create", ADMIN, "Create a flavor", ("POST", "/flavors")),
    rule(
        "os_compute_api:os-flavor-manage:update",
        ADMIN,
        "Set a flavor's description",
        ("PUT", "/flavors/{flavor_id}"),
    ),
    rule("os_compute_api:os-flavor-manage:delete", ADMIN, "Delete a flavor", ("DELETE", "/flavors/{flavor_id}")),
    rule(
        "os_compute_api:os-flavor-access",
        ADMIN,
        "Show all private flavors, and the projects with access to a flavor",
        ("GET", "/flavors/{flavor_id}/os-flavor-access"),
        ("GET", "/flavors"),
        ("GET", "/flavors/detail"),
        ("GET", "/flavors/{flavor_id}"),
    ),
    rule(
        "os_compute_api:os-flavor-extra-specs:index",
        PROJECT_READER_OR_ADMIN,
        "Show extra specs of flavors",
        ("GET", "/flavors/{flavor_id}/os-extra_specs"),
        ("GET", "/flavors/detail"),
        ("GET", "/flavors/{flavor_id}"),
        ("POST", "/flavors"),
        ("PUT", "/flavors/{flavor_id}"),
    ),
)

_SORT_KEYS = {
    "flavorid": "flavor_id",
    "id": "created_at",
    "memory_mb": "memory_mib",
    "root_gb": "root_gib",
    "ephemeral_gb": "ephemeral_gib",
    "swap": "swap_mib",
    "vcpu_weight": "flavor_id",
}


def list_flavors(ctx: Context, request: Request) -> Reply:
    """GET /flavors.  2.55 adds the description, 2.102 the filter by name."""
    ctx.authorize_anyone()  # Nova has no policy rule for this route
    found, links = _page(ctx, request)
    views = []
    for flavor in found:
        view: dict[str, Any] = {"id": flavor.flavor_id, "name": flavor.name, "links": _links(request, flavor)}
        if request.version >= Version(2, 55):
            view["description"] = flavor.description
        views.append(view)
    return Reply(200, {"flavors": views, **links})


def list_flavors_detail(ctx: Context, request: Request) -> Reply:
    """GET /flavors/detail."""
    ctx.authorize_anyone()  # Nova has no policy rule for this route
    found, links = _page(ctx, request)
    return Reply(200, {"flavors": [flavor_view(ctx, request, flavor) for flavor in heeding(found)], **links})


def show_flavor(ctx: Context, request: Request) -> Reply:
    """GET /flavors/{flavor_id}.  Errors: 404, also if the flavor is private and the caller's project has no access."""
    ctx.authorize_anyone()  # Nova has no policy rule for this route
    return Reply(200, {"flavor": flavor_view(ctx, request, find_visible(ctx, request.path["flavor_id"]))})


def create_flavor(ctx: Context, request: Request) -> Reply:
    """POST /flavors.  Errors: 400, 409 if the name or id exists."""
    ctx.authorize("os_compute_api:os-flavor-manage:create")
    asked = read_typed(NewFlavor, request.body["flavor"])
    # The schema does not check the range of a number that is sent as a string.
    _check_range("ram", asked.ram, 1)
    _check_range("vcpus", asked.vcpus, 1)
    _check_range("disk", asked.disk, 0)
    _check_range("OS-FLV-EXT-DATA:ephemeral", asked.ephemeral, 0)
    _check_range("swap", asked.swap, 0)
    flavor = Flavor(
        flavor_id=new_uuid() if asked.id in {None, "auto"} else str(asked.id),
        name=asked.name,
        vcpus=int(asked.vcpus),
        memory_mib=int(asked.ram),
        root_gib=int(asked.disk),
        ephemeral_gib=int(asked.ephemeral),
        swap_mib=int(asked.swap),
        rxtx_factor=float(asked.rxtx_factor),
        is_public=as_bool(asked.is_public),
        description=asked.description,
    )
    if not 0 < flavor.rxtx_factor <= MAX_FLOAT:
        raise invalid_field(
            "rxtx_factor", f"Value: {asked.rxtx_factor}. The value must be above 0 and at most {MAX_FLOAT}."
        )
    created = ctx.write(lambda tx: flavors.create(tx, flavor))
    ctx.announce(FlavorActed("create", created, ()))
    return Reply(200, {"flavor": flavor_view(ctx, request, created)})


def update_flavor(ctx: Context, request: Request) -> Reply:
    """PUT /flavors/{flavor_id}.  Since: 2.55."""
    ctx.authorize("os_compute_api:os-flavor-manage:update")
    flavor_id, description = request.path["flavor_id"], request.body["flavor"]["description"]
    updated = ctx.write(lambda tx: flavors.update_description(tx, flavor_id, description))
    announce_change(ctx, flavor_id)
    return Reply(200, {"flavor": flavor_view(ctx, request, updated)})


def delete_flavor(ctx: Context, request: Request) -> Reply:
    """DELETE /flavors/{flavor_id}.  Errors: 404."""
    ctx.authorize("os_compute_api:os-flavor-manage:delete")
    flavor_id = request.path["flavor_id"]

    def job(tx: Transaction) -> FlavorActed:
        deleted = FlavorActed(
            "delete", flavors.get(tx.connection, flavor_id), flavors.projects(tx.connection, flavor_id)
        )
        flavors.delete(tx, flavor_id)
        return deleted

    ctx.announce(ctx.write(job))
    return Reply(202)


def announce_change(ctx: Context, flavor_id: str) -> None:
    """Publish the update notification of a flavor. Called after a change of its fields, extra specs or access list."""
    if not ctx.backend.announcer.is_on:
        return
    with ctx.read() as connection:
        changed = flavors.get(connection, flavor_id)
        ctx.announce(FlavorActed("update", changed, flavors.projects(connection, flavor_id)))


def find_visible(ctx: Context, flavor_id: str) -> Flavor:
    """Return a flavor. Raises: NotFound, also if the caller may not see the flavor."""
    with ctx.read() as connection:
        flavor = flavors.get(connection, flavor_id)
        if flavor.is_public or ctx.may("os_compute_api:os-flavor-access"):
            return flavor
        if ctx.project_id not in flavors.projects(connection, flavor_id):
            raise NotFound(f"Flavor {flavor_id} could not be found.")
    return flavor


def find_asked(ctx: Context, reference: object) -> Flavor:
    """Return the flavor of ``reference``, an id or link from ``flavorRef``. Raises: InvalidRequest.

    A disabled flavor and a flavor that the caller may not see are refused, too.
    """
    flavor_id = str(reference).rstrip("/").rpartition("/")[2]
    try:
        flavor = find_visible(ctx, flavor_id)
    except NotFound as error:
        raise invalid_field("flavorRef", error.message) from None
    if flavor.disabled:
        raise invalid_field("flavorRef", f"Flavor {flavor_id} is disabled.")
    return flavor


def flavor_view(ctx: Context, request: Request, flavor: Flavor) -> dict[str, Any]:
    """Return a flavor's view at the request's microversion."""
    swap: object = flavor.swap_mib or (0 if request.version >= Version(2, 75) else "")
    view: dict[str, Any] = {
        "id": flavor.flavor_id,
        "name": flavor.name,
        "ram": flavor.memory_mib,
        "disk": flavor.root_gib,
        "vcpus": flavor.vcpus,
        "swap": swap,
        "OS-FLV-EXT-DATA:ephemeral": flavor.ephemeral_gib,
        "os-flavor-access:is_public": flavor.is_public,
        "links": _links(request, flavor),
    }
    if request.version < Version(2, 102):
        view["rxtx_factor"] = flavor.rxtx_factor
        view["OS-FLV-DISABLED:disabled"] = flavor.disabled
    if request.version >= Version(2, 55):
        view["description"] = flavor.description
    if request.version >= Version(2, 61) and ctx.may("os_compute_api:os-flavor-extra-specs:index"):
        view["extra_specs"] = dict(flavor.extra_specs)
    return view


def _links(request: Request, flavor: Flavor) -> list[dict[str, str]]:
    return bookmark_links(request, f"flavors/{flavor.flavor_id}")


def _page(ctx: Context, request: Request) -> tuple[list[Flavor], dict[str, Any]]:
    sees_all = ctx.may("os_compute_api:os-flavor-access")
    is_public = _wanted_publicity(request) if sees_all else True
    with ctx.read() as connection:
        if is_public:
            found = list(flavors.list_visible(connection, project_id=ctx.project_id))
        else:
            found = list(flavors.list_visible(connection, is_public=is_public))
    for name, field in (("minRam", "memory_mib"), ("minDisk", "root_gib")):
        text = request.param(name)
        if text is not None:
            try:
                least = int(text)
            except ValueError:
                raise InvalidRequest(f"Invalid {name} filter [{text}]") from None
            found = [flavor for flavor in found if getattr(flavor, field) >= least]
    if request.version >= Version(2, 102) and (name_filter := request.param("name")):
        found = [flavor for flavor in found if name_filter in flavor.name]
    key = request.param("sort_key") or "flavorid"
    attribute = _SORT_KEYS.get(key, key)
    present = [flavor for flavor in found if getattr(flavor, attribute) is not None]
    present.sort(key=lambda flavor: getattr(flavor, attribute))
    found = [flavor for flavor in found if getattr(flavor, attribute) is None] + present
    if request.param("sort_dir") == "desc":
        found.reverse()
    return next_page(
        ctx, request, found, lambda flavor: flavor.flavor_id, "flavors", limit=integer_param(request, "limit")
    )


def _wanted_publicity(request: Request) -> bool | None:
    """Return the query parameter ``is_public`` of an administrator's request. None: public and private flavors."""
    text = (request.param("is_public") or "true").lower()
    if text == "none":
        return None
    if text not in {"t", "true", "on", "y", "yes", "1", "f", "false", "off", "n", "no", "0"}:
        raise InvalidRequest(f"Invalid is_public filter [{text}]", field="is_public")
    return as_bool(text)


def _check_range(field: str, value: float | str, minimum: int) -> None:
    if not minimum <= int(value) <= MAX_INTEGER:
        raise invalid_field(field, f"Value: {value}. The value must be from {minimum} to {MAX_INTEGER}.")


ROUTES: Routes = {
    "/flavors": {
        "GET": Endpoint(list_flavors, query=schemas.LIST),
        "POST": Endpoint(create_flavor, body=schemas.CREATE, query=schemas.SHOW),
    },
    "/flavors/detail": {"GET": Endpoint(list_flavors_detail, query=schemas.LIST)},
    "/flavors/{flavor_id}": {
        "GET": Endpoint(show_flavor, query=schemas.SHOW),
        "PUT": Endpoint(update_flavor, body=schemas.UPDATE, query=schemas.SHOW, since=Version(2, 55)),
        "DELETE": Endpoint(delete_flavor, query=schemas.SHOW),
    },
}
