# SPDX-License-Identifier: Apache-2.0
"""Allocation candidates: what could be allocated right now, and a summary of the providers involved.  Since: 1.10."""

from collections.abc import Iterable

import numpy as np
from os_resource_classes import STANDARDS
from os_traits import get_traits

from kilonova import deadline
from kilonova.api.http import Context, Endpoint, Reply, Request, Routes
from kilonova.api.microversion import Version
from kilonova.api.placement.candidate_encoding import encode_candidates
from kilonova.api.placement.policies import rule
from kilonova.api.placement.queries import read_candidate_query
from kilonova.api.placement.requests import dated, gives_json, read_query
from kilonova.api.schemas import placement_allocation_candidates as schemas
from kilonova.db import resource_classes, traits
from kilonova.errors import InvalidRequest, NotFound
from kilonova.placement.candidate_query import CandidateQuery
from kilonova.placement.candidates import find_candidates
from kilonova.placement.search_budget import SearchBudget

_PATH = "/allocation_candidates"
RULES = (rule("placement:allocation_candidates:list", "List allocation candidates", ("GET", _PATH)),)
_STANDARD_CLASSES = frozenset(STANDARDS)
_STANDARD_TRAITS = frozenset(get_traits())


@gives_json
def list_allocation_candidates(ctx: Context, request: Request) -> Reply:
    """GET /allocation_candidates.  Errors: 400, also for unknown names and for a search that takes too long."""
    ctx.authorize("placement:allocation_candidates:list")
    read_query(request, schemas.LIST)
    settings = ctx.backend.settings.placement
    query = read_candidate_query(
        request,
        maximum=settings.max_allocation_candidates,
        breadth_first=settings.allocation_candidates_generation_strategy == "breadth-first",
    )
    _require_known_names(ctx, query)
    table = ctx.backend.mirror.providers()
    rng = np.random.default_rng() if settings.randomize_allocation_candidates else None
    budget = SearchBudget(settings.max_search_steps or None, deadline.check)
    found = find_candidates(table, query, rng, budget)
    return dated(request, encode_candidates(table, query, found, request.version))


def _require_known_names(ctx: Context, query: CandidateQuery) -> None:
    """Look up, in the database, every name that is not a standard one. Raises: InvalidRequest."""
    classes = {name for group in query.groups for name in group.resources} - _STANDARD_CLASSES
    names: set[str] = set(query.root_required | query.root_forbidden)
    for group in query.groups:
        names |= group.forbidden
        names |= _flat(group.required)
    names -= _STANDARD_TRAITS
    if not classes and not names:
        return
    with ctx.backend.database.read() as connection:
        try:
            resource_classes.ids(connection, classes)
        except NotFound as error:
            raise InvalidRequest(f"Invalid resource class in resources parameter: {error.message}") from None
        try:
            traits.ids(connection, names)
        except NotFound as error:
            raise InvalidRequest(error.message) from None


def _flat(sets: Iterable[frozenset[str]]) -> frozenset[str]:
    return frozenset().union(*sets)


ROUTES: Routes = {_PATH: {"GET": Endpoint(list_allocation_candidates, since=Version(1, 10))}}
