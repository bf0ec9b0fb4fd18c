# SPDX-License-Identifier: Apache-2.0
"""Routes of allocations: of a single consumer, of a resource provider, and of several consumers at once."""

from collections.abc import Mapping
from typing import Any

from kilonova.api.http import Context, Endpoint, Reply, Request, Routes
from kilonova.api.microversion import Version
from kilonova.api.placement.bodies.allocations import ConsumerBody, ConsumerList
from kilonova.api.placement.policies import rule
from kilonova.api.placement.requests import dated, gives_json, read_body, takes_json
from kilonova.api.placement.resource_providers import find_provider
from kilonova.api.placement.schemas import allocations as schemas
from kilonova.api.placement.schemas.validation import is_uuid_like, normal_uuid
from kilonova.api.typed_body import read_typed
from kilonova.db import allocations
from kilonova.db.allocations import ConsumerRequest
from kilonova.db.usages import UNKNOWN_TYPE
from kilonova.errors import InvalidRequest, NotFound

_ALL = "/allocations"
_ONE = "/allocations/{consumer_uuid}"
_OF_PROVIDER = "/resource_providers/{uuid}/allocations"
RULES = (
    rule("placement:allocations:manage", "Set allocations of several consumers", ("POST", _ALL)),
    rule("placement:allocations:list", "Show a consumer's allocations", ("GET", _ONE)),
    rule("placement:allocations:update", "Set a consumer's allocations", ("PUT", _ONE)),
    rule("placement:allocations:delete", "Delete a consumer's allocations", ("DELETE", _ONE)),
    rule("placement:resource_providers:allocations:list", "List a provider's allocations", ("GET", _OF_PROVIDER)),
)
_BY_PROVIDER = Version(1, 12)
_CONSUMER_GENERATIONS = Version(1, 28)
_CONSUMER_TYPES = Version(1, 38)


@gives_json
def show_allocations(ctx: Context, request: Request) -> Reply:
    """GET /allocations/{consumer_uuid}.  For an unknown consumer, shows an empty set of allocations.

    1.12 adds project and user of the consumer, 1.28 its generation, 1.38 its type.
    """
    ctx.authorize("placement:allocations:list")
    with ctx.read() as connection:
        found = allocations.for_consumer(connection, request.path["consumer_uuid"])
    if found is None:
        return dated(request, {"allocations": {}})
    body: dict[str, Any] = {
        "allocations": {
            uuid: {"resources": resources, "generation": found.provider_generations[uuid]}
            for uuid, resources in found.allocations.items()
        }
    }
    if request.version >= _BY_PROVIDER:
        body |= {"project_id": found.project_id, "user_id": found.user_id}
    if request.version >= _CONSUMER_GENERATIONS:
        body["consumer_generation"] = found.generation
    if request.version >= _CONSUMER_TYPES:
        body["consumer_type"] = found.consumer_type or UNKNOWN_TYPE
    return dated(request, body, found.changed_at)


@gives_json
def list_provider_allocations(ctx: Context, request: Request) -> Reply:
    """GET /resource_providers/{uuid}/allocations.  1.28 adds consumer generations.  Errors: 404."""
    ctx.authorize("placement:resource_providers:allocations:list")
    provider = find_provider(ctx, request)
    with ctx.read() as connection:
        found, changed_at = allocations.for_provider(connection, provider.id)
    views: dict[str, Any] = {}
    for consumer_uuid, (generation, resources) in found.items():
        views[consumer_uuid] = {"resources": resources}
        if request.version >= _CONSUMER_GENERATIONS:
            views[consumer_uuid]["consumer_generation"] = generation
    return dated(request, {"allocations": views, "resource_provider_generation": provider.generation}, changed_at)


@takes_json
def set_allocations(ctx: Context, request: Request) -> Reply:
    """PUT /allocations/{consumer_uuid}.  Since 1.28 allocations may be empty, which deletes the consumer.

    Errors: 400 also for an unknown provider or resource class; 409 for a generation conflict of the consumer, or if an
    inventory does not exist, an amount violates min_unit, max_unit or step_size, or the capacity is exceeded.
    """
    ctx.authorize("placement:allocations:update")
    consumer_uuid = request.path["consumer_uuid"]
    if not is_uuid_like(consumer_uuid):
        raise InvalidRequest(f"Malformed consumer_uuid: {consumer_uuid}")
    consumer_uuid = normal_uuid(consumer_uuid)
    body = read_body(request, schemas.PUT)
    if request.version < _BY_PROVIDER:
        consumer = read_typed(ConsumerList, body).by_provider()
    else:
        consumer = read_typed(ConsumerBody, body)
    return _write(ctx, [read_consumer(ctx, request, consumer_uuid, consumer)])


@takes_json
def set_many_allocations(ctx: Context, request: Request) -> Reply:
    """POST /allocations.  Since: 1.13.  Sets the allocations of all consumers or of none.  Errors: 400, 409.

    A consumer whose allocations are empty is deleted.
    """
    ctx.authorize("placement:allocations:manage")
    return _write(
        ctx, read_consumers(ctx, request, read_typed(dict[str, ConsumerBody], read_body(request, schemas.POST)))
    )


def delete_allocations(ctx: Context, request: Request) -> Reply:
    """DELETE /allocations/{consumer_uuid}.  Errors: 404."""
    ctx.authorize("placement:allocations:delete")
    consumer_uuid = request.path["consumer_uuid"]
    if not ctx.write_batched(allocations.delete_batched, consumer_uuid):
        raise NotFound(f"No allocations for consumer '{consumer_uuid}'")
    return Reply(204)


def read_consumers(ctx: Context, request: Request, body: Mapping[str, ConsumerBody]) -> list[ConsumerRequest]:
    """Convert ``body``, consumer uuid → its allocations, into one ConsumerRequest for each consumer."""
    return [read_consumer(ctx, request, consumer_uuid, item) for consumer_uuid, item in body.items()]


def read_consumer(ctx: Context, request: Request, consumer_uuid: str, item: ConsumerBody) -> ConsumerRequest:
    """Convert ``item``, the allocations of one consumer, into a ConsumerRequest.

    Before 1.8 the body has no project and user; the consumer then gets those of the configuration.
    """
    settings = ctx.backend.settings.placement
    return ConsumerRequest(
        consumer_uuid=consumer_uuid,
        project_id=item.project_id or settings.incomplete_consumer_project_id,
        user_id=item.user_id or settings.incomplete_consumer_user_id,
        allocations={
            uuid: {name: int(amount) for name, amount in entry.resources.items()}
            for uuid, entry in item.allocations.items()
        },
        consumer_type=item.consumer_type,
        guarded=request.version >= _CONSUMER_GENERATIONS,
        generation=None if item.consumer_generation is None else int(item.consumer_generation),
    )


def _write(ctx: Context, wanted: list[ConsumerRequest]) -> Reply:
    ctx.write_batched(allocations.replace_batched, wanted)
    return Reply(204)


ROUTES: Routes = {
    _ALL: {"POST": Endpoint(set_many_allocations, since=Version(1, 13))},
    _ONE: {
        "GET": Endpoint(show_allocations),
        "PUT": Endpoint(set_allocations),
        "DELETE": Endpoint(delete_allocations),
    },
    _OF_PROVIDER: {"GET": Endpoint(list_provider_allocations)},
}
