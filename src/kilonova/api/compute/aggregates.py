# SPDX-License-Identifier: Apache-2.0
"""Routes of host aggregates: CRUD, hosts, metadata, image caching.

Each change of an aggregate's hosts also changes the Placement aggregate with the same uuid, in the same transaction.
"""

from dataclasses import replace
from typing import Any

from kilonova.api.compute.actions import run_action
from kilonova.api.compute.identifiers import integer_id
from kilonova.api.compute.schemas import aggregates as schemas
from kilonova.api.compute.times import stored_time
from kilonova.api.http import Context, Endpoint, Reply, Request, Routes
from kilonova.api.microversion import Version
from kilonova.api.policy import ADMIN, action, rule
from kilonova.api.schemas import queries
from kilonova.db import aggregates
from kilonova.db.core.transaction import Transaction
from kilonova.deadline import heeding
from kilonova.errors import InvalidRequest, NotFound
from kilonova.model.aggregate import ZONE_KEY, Aggregate
from kilonova.notifications.events import AggregateActed
from kilonova.notifications.message import Phase
from kilonova.scheduler.isolation_rules import is_rule_key, parse_alternative

_ONE, _ACTION = "/os-aggregates/{aggregate_id}", "/os-aggregates/{aggregate_id}/action"
_IMAGES = f"{_ONE}/images"
RULES = (
    rule("os_compute_api:os-aggregates:index", ADMIN, "List aggregates", ("GET", "/os-aggregates")),
    rule("os_compute_api:os-aggregates:create", ADMIN, "Create an aggregate", ("POST", "/os-aggregates")),
    rule("os_compute_api:os-aggregates:show", ADMIN, "Show an aggregate", ("GET", _ONE)),
    rule("os_compute_api:os-aggregates:update", ADMIN, "Rename an aggregate or give it a zone", ("PUT", _ONE)),
    rule("os_compute_api:os-aggregates:delete", ADMIN, "Delete an aggregate", ("DELETE", _ONE)),
    rule("os_compute_api:os-aggregates:add_host", ADMIN, "Add a host to an aggregate", action("add_host", _ACTION)),
    rule(
        "os_compute_api:os-aggregates:remove_host",
        ADMIN,
        "Remove a host from an aggregate",
        action("remove_host", _ACTION),
    ),
    rule("compute:aggregates:images", ADMIN, "Cache images on the hosts of an aggregate", ("POST", _IMAGES)),
    rule(
        "os_compute_api:os-aggregates:set_metadata",
        ADMIN,
        "Change metadata of an aggregate",
        action("set_metadata", _ACTION),
    ),
)


def list_aggregates(ctx: Context, request: Request) -> Reply:
    """GET /os-aggregates.  2.41 adds uuid."""
    ctx.authorize("os_compute_api:os-aggregates:index")
    with ctx.read() as connection:
        found = aggregates.list_all(connection)
    return Reply(200, {"aggregates": [aggregate_view(aggregate, request.version) for aggregate in heeding(found)]})


def create_aggregate(ctx: Context, request: Request) -> Reply:
    """POST /os-aggregates.  The reply does not contain hosts and metadata.  Errors: 400, 409 if the name exists."""
    ctx.authorize("os_compute_api:os-aggregates:create")
    asked = request.body["aggregate"]
    created = ctx.write(lambda tx: aggregates.create(tx, asked["name"], asked.get("availability_zone")))
    ctx.announce(*_both("create", created))
    view = aggregate_view(created, request.version)
    del view["hosts"], view["metadata"]
    return Reply(200, {"aggregate": view})


def show_aggregate(ctx: Context, request: Request) -> Reply:
    """GET /os-aggregates/{aggregate_id}.  Errors: 400, 404."""
    ctx.authorize("os_compute_api:os-aggregates:show")
    with ctx.read() as connection:
        return _reply(request, aggregates.get(connection, _id(request)))


def update_aggregate(ctx: Context, request: Request) -> Reply:
    """PUT /os-aggregates/{aggregate_id}.  Errors: 400, 404, 409 if the name exists.

    400 also for a new zone if a host of the aggregate has servers, or has a different zone from another aggregate.
    """
    ctx.authorize("os_compute_api:os-aggregates:update")
    asked, aggregate_id = request.body["aggregate"], _id(request)
    if ZONE_KEY in asked and asked[ZONE_KEY] is None:
        raise InvalidRequest(f"Aggregate {aggregate_id} does not support an empty {ZONE_KEY}.", field=ZONE_KEY)
    name, zone = asked.get("name"), asked.get(ZONE_KEY)
    changed = ctx.write(lambda tx: aggregates.update(tx, aggregate_id, name=name, zone=zone))
    ctx.announce(*_both("update_prop", changed))
    return _reply(request, changed)


def delete_aggregate(ctx: Context, request: Request) -> Reply:
    """DELETE /os-aggregates/{aggregate_id}.  Errors: 400 also while the aggregate has hosts, 404."""
    ctx.authorize("os_compute_api:os-aggregates:delete")
    aggregate_id = _id(request)

    def job(tx: Transaction) -> Aggregate:
        present = aggregates.get(tx.connection, aggregate_id)
        aggregates.delete(tx, aggregate_id)
        return present

    ctx.announce(*_both("delete", ctx.write(job)))
    return Reply(200)


def act_on_aggregate(ctx: Context, request: Request) -> Reply:
    """POST /os-aggregates/{aggregate_id}/action."""
    return run_action(ctx, request, ACTIONS)


def add_host(ctx: Context, request: Request) -> Reply:
    """Add a host.  Errors: 400, 404, 409 if the host is a member already, or cannot be in the aggregate's zone."""
    ctx.authorize("os_compute_api:os-aggregates:add_host")
    aggregate_id, host = _id(request), request.body["add_host"]["host"]
    zone = ctx.backend.settings.compute.default_availability_zone
    changed = ctx.write(lambda tx: aggregates.add_host(tx, aggregate_id, host, default_zone=zone))
    before = replace(changed, hosts=tuple(each for each in changed.hosts if each != host))
    ctx.announce(*_both("add_host", changed, before, host=host))
    return _reply(request, changed)


def remove_host(ctx: Context, request: Request) -> Reply:
    """Remove a host.  Errors: 400, 404, 409 if the removal would change the zone of servers on the host."""
    ctx.authorize("os_compute_api:os-aggregates:remove_host")
    aggregate_id, host = _id(request), request.body["remove_host"]["host"]
    zone = ctx.backend.settings.compute.default_availability_zone
    changed = ctx.write(lambda tx: aggregates.remove_host(tx, aggregate_id, host, default_zone=zone))
    ctx.announce(*_both("remove_host", changed, replace(changed, hosts=(*changed.hosts, host)), host=host))
    return _reply(request, changed)


def set_metadata(ctx: Context, request: Request) -> Reply:
    """Merge new metadata into an aggregate's metadata; null removes a key.  Errors: 400, 404.

    400 also for an invalid isolation rule, and for a new zone in the same cases as in ``update_aggregate``.
    """
    ctx.authorize("os_compute_api:os-aggregates:set_metadata")
    aggregate_id, metadata = _id(request), request.body["set_metadata"]["metadata"]
    for key, value in metadata.items():
        if value is not None and is_rule_key(key):
            parse_alternative(key, value)
    changed = ctx.write(lambda tx: aggregates.set_metadata(tx, aggregate_id, metadata))
    ctx.announce(*_both("update_metadata", changed, metadata=metadata))
    return _reply(request, changed)


def cache_images(ctx: Context, request: Request) -> Reply:
    """POST /os-aggregates/{aggregate_id}/images.  Since: 2.81.  Errors: 400, 404.

    Caches images on all hosts of the aggregate.
    """
    ctx.authorize("compute:aggregates:images")
    with ctx.read() as connection:
        aggregate = aggregates.get(connection, _id(request))
    conductor = ctx.backend.conductor
    if not conductor.makes_images:
        raise InvalidRequest("No image service is configured, so images cannot be cached.")
    wanted = [each["id"] for each in request.body["cache"]]
    for image_id in wanted:
        _check_image(ctx, image_id)
    at_once = ctx.backend.settings.images.precache_concurrency
    ctx.announce(AggregateActed("cache_images", Phase.START, aggregate))
    if not aggregate.hosts:
        ctx.announce(AggregateActed("cache_images", Phase.END, aggregate))
    conductor.operations.image_caching.cache(aggregate, wanted, ctx.requester, at_once)
    return Reply(202)


def _check_image(ctx: Context, image_id: str) -> None:
    """Raise InvalidRequest unless the caller can see the image and it has data."""
    try:
        image = ctx.backend.images.get(image_id, token=ctx.credentials.token, project_id=ctx.project_id)
    except NotFound as error:
        raise InvalidRequest(error.message, field="cache") from None
    if image.status != "active":
        raise InvalidRequest(f"Image {image_id} is not active.", field="cache")


def aggregate_view(aggregate: Aggregate, version: Version) -> dict[str, Any]:
    """Return an aggregate's view at a microversion."""
    view: dict[str, Any] = {
        "id": aggregate.id,
        "name": aggregate.name,
        "availability_zone": aggregate.availability_zone,
        "hosts": list(aggregate.hosts),
        "metadata": dict(aggregate.metadata),
        "created_at": stored_time(aggregate.created_at),
        "updated_at": stored_time(aggregate.updated_at),
        "deleted": False,
        "deleted_at": None,
    }
    if version >= Version(2, 41):
        view["uuid"] = aggregate.uuid
    return view


def _reply(request: Request, aggregate: Aggregate) -> Reply:
    return Reply(200, {"aggregate": aggregate_view(aggregate, request.version)})


def _both(
    action: str, after: Aggregate, before: Aggregate | None = None, **beside: Any
) -> tuple[AggregateActed, AggregateActed]:
    """Return the start and the end notification of a completed change of an aggregate.

    ``before``: the aggregate in the start notification; None: the same as in the end notification. ``after``: the
    aggregate in the end notification.
    """
    start = AggregateActed(action, Phase.START, before or after, **beside)
    return start, AggregateActed(action, Phase.END, after, **beside)


def _id(request: Request) -> int:
    return integer_id(request.path["aggregate_id"], "id")


ACTIONS = {
    "add_host": Endpoint(add_host, body=schemas.ADD_HOST),
    "remove_host": Endpoint(remove_host, body=schemas.REMOVE_HOST),
    "set_metadata": Endpoint(set_metadata, body=schemas.SET_METADATA),
}
ROUTES: Routes = {
    "/os-aggregates": {
        "GET": Endpoint(list_aggregates, query=queries.NONE),
        "POST": Endpoint(create_aggregate, body=schemas.CREATE, query=queries.NONE),
    },
    _ONE: {
        "GET": Endpoint(show_aggregate, query=queries.NONE),
        "PUT": Endpoint(update_aggregate, body=schemas.UPDATE, query=queries.NONE),
        "DELETE": Endpoint(delete_aggregate, query=queries.NONE),
    },
    _IMAGES: {"POST": Endpoint(cache_images, body=schemas.CACHE_IMAGES, query=queries.NONE, since=Version(2, 81))},
    _ACTION: {"POST": Endpoint(act_on_aggregate, query=queries.NONE)},
}
