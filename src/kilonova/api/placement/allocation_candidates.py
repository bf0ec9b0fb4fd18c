# SPDX-License-Identifier: Apache-2.0
"""Route of allocation candidates: allocations that are possible at present, and summaries of their providers.

Since: 1.10.
"""

from functools import lru_cache

import numpy as np
from os_resource_classes import STANDARDS
from os_traits import get_traits

from kilonova import deadline
from kilonova.api.http import Context, Endpoint, Reply, Request, Routes
from kilonova.api.microversion import Version
from kilonova.api.placement.candidate_encoding import encode_candidates
from kilonova.api.placement.policies import rule
from kilonova.api.placement.queries import read_candidate_query
from kilonova.api.placement.requests import check_query, dated, gives_json
from kilonova.api.placement.schemas import allocation_candidates as schemas
from kilonova.api.query_string import REMEMBERED, REMEMBERED_LENGTH, parsed
from kilonova.config.placement import PlacementSettings
from kilonova.db import resource_classes, traits
from kilonova.errors import InvalidRequest, NotFound
from kilonova.placement.candidate_query import CandidateQuery
from kilonova.placement.candidates import find_candidates
from kilonova.placement.search_budget import SearchBudget
from kilonova.records import dataclass

_PATH = "/allocation_candidates"
RULES = (rule("placement:allocation_candidates:list", "List allocation candidates", ("GET", _PATH)),)
_STANDARD_CLASSES = frozenset(STANDARDS)
_STANDARD_TRAITS = frozenset(get_traits())


@gives_json
def list_allocation_candidates(ctx: Context, request: Request) -> Reply:
    """GET /allocation_candidates.  Errors: 400.

    400 also for an unknown resource class or trait, and if the search exceeds ``max_search_steps``.
    """
    ctx.authorize("placement:allocation_candidates:list")
    settings = ctx.backend.settings.placement
    asked = _asked(request, settings)
    if asked.classes or asked.traits:
        _require_known(ctx, asked)
    query = asked.query
    table = ctx.backend.mirror.providers()
    rng = np.random.default_rng() if settings.randomize_allocation_candidates else None
    budget = SearchBudget(settings.max_search_steps or None, deadline.check)
    found = find_candidates(table, query, rng, budget)
    return dated(request, encode_candidates(table, query, found, request.version))


@dataclass(frozen=True, slots=True)
class _Asked:
    """A parsed query. ``classes``, ``traits``: custom resource classes and traits that the query names."""

    query: CandidateQuery
    classes: frozenset[str]
    traits: frozenset[str]

    @classmethod
    def by(cls, query: CandidateQuery) -> "_Asked":
        classes = {name for group in query.groups for name in group.resources}
        names = set(query.root_required | query.root_forbidden)
        for group in query.groups:
            names |= group.forbidden.union(*group.required)
        return cls(query, frozenset(classes - _STANDARD_CLASSES), frozenset(names - _STANDARD_TRAITS))


def _asked(request: Request, settings: PlacementSettings) -> _Asked:
    """Return the parsed query. Queries are cached, because services repeat the query of a flavor without any change.

    Raises: InvalidRequest.
    """
    text = request.query_string
    breadth_first = settings.allocation_candidates_generation_strategy == "breadth-first"
    read = _remembered if len(text) <= REMEMBERED_LENGTH else _read
    return read(text, request.version, settings.max_allocation_candidates, breadth_first)


def _read(text: str, version: Version, maximum: int, breadth_first: bool) -> _Asked:
    query = parsed(text)
    check_query(query, version, schemas.LIST)
    return _Asked.by(read_candidate_query(query, version, maximum=maximum, breadth_first=breadth_first))


_remembered = lru_cache(maxsize=REMEMBERED)(_read)


def _require_known(ctx: Context, asked: _Asked) -> None:
    """Raise InvalidRequest if a custom resource class or trait of the query does not exist in the database."""
    with ctx.read() as connection:
        try:
            resource_classes.ids(connection, asked.classes)
        except NotFound as error:
            raise InvalidRequest(f"Invalid resource class in resources parameter: {error.message}") from None
        try:
            traits.ids(connection, asked.traits)
        except NotFound as error:
            raise InvalidRequest(error.message) from None


ROUTES: Routes = {_PATH: {"GET": Endpoint(list_allocation_candidates, since=Version(1, 10))}}
