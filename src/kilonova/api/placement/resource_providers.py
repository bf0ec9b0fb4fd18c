# SPDX-License-Identifier: Apache-2.0
"""Routes of resource providers: list, show, create, rename, change the parent, delete."""

import uuid
from collections.abc import Callable
from functools import cache
from typing import Any

from kilonova.api.http import Context, Endpoint, Reply, Request, Routes
from kilonova.api.microversion import Version
from kilonova.api.placement.policies import rule
from kilonova.api.placement.queries import read_member_of, read_resources, read_traits
from kilonova.api.placement.requests import (
    CONCURRENT_UPDATE,
    dated,
    gives_json,
    newest,
    read_body,
    read_query,
    takes_json,
)
from kilonova.api.placement.schemas import resource_providers as schemas
from kilonova.api.placement.schemas.validation import BodySchemas, normal_uuid
from kilonova.db import provider_edits, provider_lists, providers, resource_classes, traits
from kilonova.db.core.transaction import Transaction
from kilonova.db.provider_edits import Edited, ProviderEdit
from kilonova.db.provider_lists import ProviderQuery
from kilonova.db.providers import NewProvider
from kilonova.deadline import heeding
from kilonova.errors import Conflict, InvalidRequest, NotFound
from kilonova.model.provider import Provider

_PATH = "/resource_providers/{uuid}"
RULES = (
    rule("placement:resource_providers:list", "List resource providers", ("GET", "/resource_providers")),
    rule("placement:resource_providers:create", "Create a resource provider", ("POST", "/resource_providers")),
    rule("placement:resource_providers:show", "Show a resource provider", ("GET", _PATH)),
    rule("placement:resource_providers:update", "Rename or move a resource provider", ("PUT", _PATH)),
    rule("placement:resource_providers:delete", "Delete a resource provider", ("DELETE", _PATH)),
)
_LINKS = (
    ("inventories", Version(1, 0)),
    ("usages", Version(1, 0)),
    ("aggregates", Version(1, 1)),
    ("traits", Version(1, 6)),
    ("allocations", Version(1, 11)),
)
_TREES = Version(1, 14)
_REPARENTING = Version(1, 37)


@gives_json
def list_providers(ctx: Context, request: Request) -> Reply:
    """GET /resource_providers.  New filters: 1.3 member_of, 1.4 resources, 1.14 in_tree, 1.18 required."""
    ctx.authorize("placement:resource_providers:list")
    query = _query(request)
    with ctx.read() as connection:
        _require_known(
            lambda: resource_classes.ids(connection, query.resources), "resource class in resources parameter"
        )
        names = {name for names in query.required for name in names} | set(query.forbidden)
        _require_known(lambda: traits.ids(connection, names), 'trait(s) in "required" parameter')
        found = provider_lists.list_matching(connection, query)
    changed_at = newest(*(provider.updated_at or provider.created_at for provider in found))
    return dated(
        request, {"resource_providers": [provider_view(request, provider) for provider in heeding(found)]}, changed_at
    )


@takes_json
def create_provider(ctx: Context, request: Request) -> Reply:
    """POST /resource_providers.  1.14 adds the parent. Since 1.20 the reply shows the provider.  Errors: 400, 409."""
    ctx.authorize("placement:resource_providers:create")
    body = read_body(request, schemas.CREATE)
    name = body["name"]
    own = normal_uuid(body["uuid"]) if body.get("uuid") else str(uuid.uuid4())
    parent = _parent(body)
    if not name:
        raise InvalidRequest(f'Unable to create resource provider "", {own}: name is required.')
    label = f'Unable to create resource provider "{name}", {own}'
    try:
        provider = ctx.write_batched(providers.create_batched, NewProvider(own, name, parent))
    except InvalidRequest as error:
        raise InvalidRequest(f"{label}: {error.message}") from None
    location = f"{request.root_url}/resource_providers/{provider.uuid}"
    if request.version < Version(1, 20):
        return Reply(201, headers={"Location": location})
    return dated(request, provider_view(request, provider), provider.created_at, Location=location)


@gives_json
def show_provider(ctx: Context, request: Request) -> Reply:
    """GET /resource_providers/{uuid}.  Errors: 404."""
    ctx.authorize("placement:resource_providers:show")
    provider = find_provider(ctx, request)
    return dated(request, provider_view(request, provider), provider.updated_at or provider.created_at)


@takes_json
def update_provider(ctx: Context, request: Request) -> Reply:
    """PUT /resource_providers/{uuid}.  Changes the name and the parent of a provider.  Errors: 400, 404, 409.

    Since 1.14 a provider without a parent can get one. Since 1.37 a parent can be replaced or removed.
    """
    ctx.authorize("placement:resource_providers:update")
    own = request.path["uuid"]
    body = read_body_for_provider(ctx, request, schemas.UPDATE)
    if not body["name"]:
        find_provider(ctx, request)
        raise InvalidRequest(f"Unable to save resource provider {own}: name is required.")
    if "parent_provider_uuid" not in body:
        provider = edit_provider(ctx, provider_edits.renamed(own, body["name"])).state.provider
        return dated(request, provider_view(request, provider))

    def job(tx: Transaction) -> Provider:
        return providers.update(
            tx,
            own,
            name=body["name"],
            move=True,
            parent_uuid=_parent(body),
            reparenting=request.version >= _REPARENTING,
        )

    try:
        provider = ctx.write(job)
    except InvalidRequest as error:
        raise InvalidRequest(f"Unable to save resource provider {own}: {error.message}") from None
    return dated(request, provider_view(request, provider), provider.updated_at)


def delete_provider(ctx: Context, request: Request) -> Reply:
    """DELETE /resource_providers/{uuid}.  Errors: 404; 409 while the provider has children or allocations."""
    ctx.authorize("placement:resource_providers:delete")
    ctx.write_batched(providers.delete_batched, request.path["uuid"])
    return Reply(204)


def edit_provider(ctx: Context, edit: ProviderEdit) -> Edited:
    """Apply ``edit`` to the provider named in ``edit``. Raises: NotFound, and errors of the edit."""
    return ctx.write_batched(provider_edits.edit_batched, edit)


def read_body_for_provider(ctx: Context, request: Request, schema: BodySchemas) -> Any:
    """Return the validated body of a request whose path names a provider.

    Raises: for an invalid body, NotFound if the provider does not exist, otherwise InvalidRequest.
    """
    try:
        return read_body(request, schema)
    except InvalidRequest:
        find_provider(ctx, request)
        raise


def find_provider(ctx: Context, request: Request) -> Provider:
    """Return the provider named in the path. Raises: NotFound."""
    with ctx.read() as connection:
        return providers.get(connection, request.path["uuid"])


def require_generation(provider: Provider, given: int) -> None:
    """Raise Conflict if ``given`` is not the provider's present generation."""
    if provider.generation != given:
        raise Conflict(
            "resource provider generation conflict: Resource provider's generation already changed. Please update the "
            f"generation and try again. Its generation is {provider.generation}, not {given}.",
            placement_code=CONCURRENT_UPDATE,
        )


def provider_view(request: Request, provider: Provider) -> dict[str, Any]:
    """Return a provider's view at the request's microversion. Its links are paths relative to Placement's endpoint."""
    href = f"/resource_providers/{provider.uuid}"
    links = [{"rel": "self", "href": href}]
    links += [{"rel": rel, "href": f"{href}/{rel}"} for rel in _links_at(request.version)]
    view: dict[str, Any] = {
        "uuid": provider.uuid,
        "name": provider.name,
        "generation": provider.generation,
        "links": links,
    }
    if request.version >= _TREES:
        view["parent_provider_uuid"] = provider.parent_uuid
        view["root_provider_uuid"] = provider.root_uuid
    return view


@cache
def _links_at(version: Version) -> tuple[str, ...]:
    return tuple(rel for rel, since in _LINKS if version >= since)


def _query(request: Request) -> ProviderQuery:
    query = read_query(request, schemas.LIST)
    asked_traits = read_traits(request.query.get("required", ()), request.version)
    aggregates = read_member_of(request.query.get("member_of", ()), request.version)
    return ProviderQuery(
        uuid=query.get("uuid"),
        name=query.get("name") or None,
        in_tree=query.get("in_tree"),
        member_of=aggregates.required,
        not_member_of=aggregates.forbidden,
        required=asked_traits.required,
        forbidden=asked_traits.forbidden,
        resources=read_resources(query["resources"]) if "resources" in query else {},
    )


def _require_known(look_up: Callable[[], object], what: str) -> None:
    try:
        look_up()
    except NotFound as error:
        raise InvalidRequest(f"Invalid {what}: {error.message}") from None


def _parent(body: dict[str, Any]) -> str | None:
    parent = body.get("parent_provider_uuid")
    return None if parent is None else normal_uuid(parent)


ROUTES: Routes = {
    "/resource_providers": {"GET": Endpoint(list_providers), "POST": Endpoint(create_provider)},
    _PATH: {
        "GET": Endpoint(show_provider),
        "PUT": Endpoint(update_provider),
        "DELETE": Endpoint(delete_provider),
    },
}
