# SPDX-License-Identifier: Apache-2.0
"""Routes of a resource provider's traits: list, set, delete all.  Since: 1.6."""

from collections.abc import Sequence

from kilonova.api.http import Context, Endpoint, Reply, Request, Routes
from kilonova.api.microversion import Version
from kilonova.api.placement.policies import rule
from kilonova.api.placement.requests import dated, gives_json, newest, read_body, takes_json
from kilonova.api.placement.resource_providers import edit_provider, find_provider, require_generation
from kilonova.api.placement.schemas import resource_providers as schemas
from kilonova.api.placement.traits import changed_at
from kilonova.db import provider_traits
from kilonova.db.provider_edits import ProviderEdit
from kilonova.db.provider_states import ProviderState, Vocabulary
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
    with ctx.read() as connection:
        found = provider_traits.of_provider(connection, provider.id)
    return _reply(request, found, provider.generation)


@takes_json
def set_provider_traits(ctx: Context, request: Request) -> Reply:
    """PUT /resource_providers/{uuid}/traits.  Errors: 400 for an unknown trait, 404, 409 for a generation conflict."""
    ctx.authorize("placement:resource_providers:traits:update")
    body = read_body(request, schemas.SET_TRAITS)
    change = provider_traits.all_changed(body["traits"])

    def checked(state: ProviderState, words: Vocabulary) -> ProviderState:
        require_generation(state.provider, body["resource_provider_generation"])
        try:
            return change(state, words)
        except NotFound as error:
            raise InvalidRequest(f"No such trait {', '.join(error.fields['names'])}") from None

    edited = edit_provider(ctx, ProviderEdit(request.path["uuid"], checked, traits=body["traits"]))
    return _reply(request, edited.traits, edited.generation)


def drop_provider_traits(ctx: Context, request: Request) -> Reply:
    """DELETE /resource_providers/{uuid}/traits.  Errors: 404."""
    ctx.authorize("placement:resource_providers:traits:delete")
    edit_provider(ctx, ProviderEdit(request.path["uuid"], provider_traits.all_changed([])))
    return Reply(204)


def _reply(request: Request, found: Sequence[Word], generation: int) -> Reply:
    body = {"traits": [word.name for word in found], "resource_provider_generation": generation}
    return dated(request, body, newest(*(changed_at(word) for word in found)))


ROUTES: Routes = {
    _PATH: {
        "GET": Endpoint(list_provider_traits, since=_SINCE),
        "PUT": Endpoint(set_provider_traits, since=_SINCE),
        "DELETE": Endpoint(drop_provider_traits, since=_SINCE),
    }
}
