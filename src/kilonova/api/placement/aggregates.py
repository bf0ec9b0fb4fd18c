# SPDX-License-Identifier: Apache-2.0
"""Routes that list and set the aggregates of a resource provider.  Since: 1.1."""

from collections.abc import Sequence
from typing import Any

from kilonova.api.http import Context, Endpoint, Reply, Request, Routes
from kilonova.api.microversion import Version
from kilonova.api.placement.policies import rule
from kilonova.api.placement.requests import dated, gives_json, takes_json
from kilonova.api.placement.resource_providers import (
    edit_provider,
    find_provider,
    read_body_for_provider,
    require_generation,
)
from kilonova.api.placement.schemas import resource_providers as schemas
from kilonova.db import provider_aggregates, providers
from kilonova.db.provider_edits import ProviderEdit
from kilonova.db.provider_states import ProviderState, Vocabulary

_PATH = "/resource_providers/{uuid}/aggregates"
RULES = (
    rule("placement:resource_providers:aggregates:list", "List a provider's aggregates", ("GET", _PATH)),
    rule("placement:resource_providers:aggregates:update", "Set a provider's aggregates", ("PUT", _PATH)),
)
_SINCE = Version(1, 1)
_WITH_GENERATION = Version(1, 19)


@gives_json
def list_aggregates(ctx: Context, request: Request) -> Reply:
    """GET /resource_providers/{uuid}/aggregates.  1.19 adds the generation.  Errors: 404."""
    ctx.authorize("placement:resource_providers:aggregates:list")
    provider = find_provider(ctx, request)
    with ctx.read() as connection:
        uuids = providers.aggregate_uuids(connection, provider.id)
    return _reply(request, uuids, provider.generation)


@takes_json
def set_aggregates(ctx: Context, request: Request) -> Reply:
    """PUT /resource_providers/{uuid}/aggregates.  1.19 checks and increments the generation.  Errors: 400, 404, 409."""
    ctx.authorize("placement:resource_providers:aggregates:update")
    body = read_body_for_provider(ctx, request, schemas.SET_AGGREGATES)
    guarded = request.version >= _WITH_GENERATION
    uuids: list[str] = body["aggregates"] if guarded else body
    change = provider_aggregates.all_changed(uuids, guarded=guarded)

    def checked(state: ProviderState, words: Vocabulary) -> ProviderState:
        if guarded:
            require_generation(state.provider, body["resource_provider_generation"])
        return change(state, words)

    edited = edit_provider(ctx, ProviderEdit(request.path["uuid"], checked, aggregates=uuids))
    return _reply(request, uuids, edited.generation)


def _reply(request: Request, uuids: Sequence[str], generation: int) -> Reply:
    body: dict[str, Any] = {"aggregates": list(uuids)}
    if request.version >= _WITH_GENERATION:
        body["resource_provider_generation"] = generation
    return dated(request, body)


ROUTES: Routes = {
    _PATH: {
        "GET": Endpoint(list_aggregates, since=_SINCE),
        "PUT": Endpoint(set_aggregates, since=_SINCE),
    }
}
