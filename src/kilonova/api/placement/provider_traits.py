# SPDX-License-Identifier: Apache-2.0
"""The traits of a provider: list, set, drop all.  Since: 1.6."""

from kilonova.api.http import Context, Endpoint, Reply, Request, Routes
from kilonova.api.microversion import Version
from kilonova.api.placement.policies import rule
from kilonova.api.placement.requests import dated, gives_json, newest, read_body, takes_json
from kilonova.api.placement.resource_providers import find_provider, require_generation
from kilonova.api.placement.traits import changed_at
from kilonova.api.schemas import placement_resource_providers as schemas
from kilonova.db import provider_traits, providers
from kilonova.db.transaction import Transaction
from kilonova.errors import InvalidRequest, NotFound
from kilonova.model.vocabulary import Word

_PATH = "/resource_providers/{uuid}/traits"
RULES = (
    rule("placement:resource_providers:traits:list", "List a provider's traits", ("GET", _PATH)),
    rule("placement:resource_providers:traits:update", "Set a provider's traits", ("PUT", _PATH)),
    rule("placement:resource_providers:traits:delete", "Drop a provider's traits", ("DELETE", _PATH)),
)
_SINCE = Version(1, 6)


@gives_json
def list_provider_traits(ctx: Context, request: Request) -> Reply:
    """GET /resource_providers/{uuid}/traits.  Errors: 404."""
    ctx.authorize("placement:resource_providers:traits:list")
    provider = find_provider(ctx, request)
    with ctx.backend.database.read() as connection:
        found = provider_traits.of_provider(connection, provider.id)
    return _reply(request, found, provider.generation)


@takes_json
def set_provider_traits(ctx: Context, request: Request) -> Reply:
    """PUT /resource_providers/{uuid}/traits.  Errors: 400 for an unknown trait, 404, 409 for the generation."""
    ctx.authorize("placement:resource_providers:traits:update")
    body = read_body(request, schemas.SET_TRAITS)
    provider = find_provider(ctx, request)
    require_generation(provider, body["resource_provider_generation"])

    def job(tx: Transaction) -> tuple[int, tuple[Word, ...]]:
        try:
            generation = provider_traits.replace(tx, provider, body["traits"])
        except NotFound as error:
            raise InvalidRequest(f"No such trait {', '.join(error.fields['names'])}") from None
        return generation, provider_traits.of_provider(tx.connection, provider.id)

    generation, found = ctx.backend.database.write(job)
    return _reply(request, found, generation)


def drop_provider_traits(ctx: Context, request: Request) -> Reply:
    """DELETE /resource_providers/{uuid}/traits.  Errors: 404."""
    ctx.authorize("placement:resource_providers:traits:delete")
    own = request.path["uuid"]
    ctx.backend.database.write(lambda tx: provider_traits.replace(tx, providers.get(tx.connection, own), []))
    return Reply(204)


def _reply(request: Request, found: tuple[Word, ...], generation: int) -> Reply:
    body = {"traits": [word.name for word in found], "resource_provider_generation": generation}
    return dated(request, body, newest(*(changed_at(word) for word in found)))


ROUTES: Routes = {
    _PATH: {
        "GET": Endpoint(list_provider_traits, since=_SINCE),
        "PUT": Endpoint(set_provider_traits, since=_SINCE),
        "DELETE": Endpoint(drop_provider_traits, since=_SINCE),
    }
}
