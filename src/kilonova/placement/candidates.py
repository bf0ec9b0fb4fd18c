# SPDX-License-Identifier: Apache-2.0
"""Allocation candidates: all ways in which a request can currently be allocated. An *anchor* is a root provider.

::

       groups ─▶ for each group, its possible providers (P,) ─▶ the anchors with a provider for each group (P,)
              ─▶ anchors without other providers, or with only one candidate: computed on whole columns
              ─▶ other anchors: a search in one tree at a time, until enough candidates are found

    A group with a suffix takes all its resources from one provider. The group without suffix may take its classes from
    several providers in the anchor's tree and from sharing providers; each required trait must be on one of them.

Source: Placement API reference, `GET /allocation_candidates`.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice

import numpy as np

from kilonova.placement.candidate_query import CandidateQuery
from kilonova.placement.candidate_search import CandidateSearch
from kilonova.placement.lone_search import rows_that_serve
from kilonova.placement.provider_table import BoolArray, IntArray, ProviderTable
from kilonova.placement.provider_tree import ProviderTrees, trees_of
from kilonova.placement.search_budget import SearchBudget
from kilonova.placement.tree_search import TreeCandidate
from kilonova.records import dataclass


@dataclass(frozen=True, slots=True)
class Candidates:
    """The candidates of a query: first those of ``single``, then those of ``trees``.

    ``single``: (N,) rows of providers each of which gives the resources of all groups. ``totals``: the resources that a
    candidate takes from such a provider. ``order``: a permutation of all candidates, or None to keep their order.
    ``summarised``: (M,) rows of the providers in the response's provider summaries.
    """

    single: IntArray
    totals: Mapping[str, int]
    trees: tuple[TreeCandidate, ...]
    summarised: IntArray
    order: IntArray | None = None

    def __len__(self) -> int:
        return len(self.single) + len(self.trees)


def find_candidates(
    table: ProviderTable,
    query: CandidateQuery,
    rng: np.random.Generator | None = None,
    budget: SearchBudget | None = None,
) -> Candidates:
    """Return the candidates in a fixed order or, with ``rng``, a random selection of candidates in random order.

    A query for a resource class, trait, aggregate or tree that no provider has gives no candidates.

    Raises: SearchTooLarge, if the search exceeds its budget; a partial result is never returned.
    """
    wanted = _wanted(query)
    trees = trees_of(table)
    if trees.all_lone:
        return _of_lone_providers(table, trees, query, wanted, rng)
    search = CandidateSearch(table, trees, query, budget or SearchBudget())
    anchors = search.viable_anchors()
    single = search.lone_rows(anchors)
    alone, several, open_anchors = search.without_choice(anchors & ~trees.lone)
    single, others = np.concatenate([single, alone]), np.flatnonzero(open_anchors)
    if rng is not None:
        single, several, others = rng.permutation(single), rng.permutation(several), rng.permutation(others)
    if wanted is not None:
        single = single[:wanted]
    distinct = _once if len(trees.sharing) else iter
    found: tuple[TreeCandidate, ...] = ()
    if (len(several) or len(others)) and (wanted is None or len(single) < wanted or rng is not None):
        room = wanted if wanted is None or rng is not None else wanted - len(single)
        ready, searched = search.built(several), search.through_trees(others, rng)
        if rng is None:
            found = tuple(islice(distinct(chain(ready, searched)), room))
        else:
            found = tuple(distinct(chain(islice(distinct(ready), room), islice(distinct(searched), room))))
    order: IntArray | None = None
    if rng is not None:
        order = rng.permutation(len(single) + len(found))[:wanted]
        if len(order) < len(single) + len(found):
            keep = np.sort(order)
            split = int(np.searchsorted(keep, len(single)))
            found = tuple(found[index - len(single)] for index in keep[split:])
            single = single[keep[:split]]
            order = rng.permutation(len(order))
    return Candidates(single, search.totals, found, _summarised(trees, query, single, found), order)


def _of_lone_providers(
    table: ProviderTable,
    trees: ProviderTrees,
    query: CandidateQuery,
    wanted: int | None,
    rng: np.random.Generator | None,
) -> Candidates:
    single, totals = rows_that_serve(table, trees, query)
    if rng is not None:
        single = rng.permutation(single)
    single = single[:wanted]
    return Candidates(single, totals, (), single if rng is None else np.sort(single))


def roots_with_candidates(
    table: ProviderTable, query: CandidateQuery, among: BoolArray, budget: SearchBudget | None = None
) -> BoolArray:
    """Return the root providers in ``among`` that have at least one candidate. Shapes: (P,) → (P,).

    ``limit`` and ``maximum`` of the query are ignored. Trees are searched only if conditions on whole columns are not
    sufficient.
    Raises: SearchTooLarge.
    """
    trees = trees_of(table)
    search = CandidateSearch(table, trees, query, budget or SearchBudget())
    anchors = search.viable_anchors() & among
    found = np.zeros_like(anchors)
    found[search.lone_rows(anchors)] = True
    others = anchors & ~trees.lone
    if search.groups_are_independent():
        return found | others
    for anchor in np.flatnonzero(others):
        found[anchor] = next(search.of_anchor(int(anchor), None), None) is not None
    return found


def candidate_at(table: ProviderTable, query: CandidateQuery, root: int) -> TreeCandidate | None:
    """Return the first candidate of the root provider ``root``, or None if it has none.

    ``limit`` and ``maximum`` of the query are ignored. Raises: SearchTooLarge.
    """
    search = CandidateSearch(table, trees_of(table), query, SearchBudget())
    return next(search.of_anchor(root, None), None) if search.viable_anchors()[root] else None


def _wanted(query: CandidateQuery) -> int | None:
    bounds = [bound for bound in (query.limit, query.maximum if query.maximum >= 0 else None) if bound is not None]
    return min(bounds, default=None)


def _summarised(
    trees: ProviderTrees, query: CandidateQuery, single: IntArray, found: Sequence[TreeCandidate]
) -> IntArray:
    rows = np.fromiter({row for candidate in found for row, _, _ in candidate.amounts}, dtype=np.int64)
    used = np.concatenate([single, rows])
    if not query.nested and trees.any_nested:
        return np.unique(used)
    return trees.rows_in(trees.root[used])


def _once(candidates: Iterable[TreeCandidate]) -> Iterator[TreeCandidate]:
    seen: set[TreeCandidate] = set()
    for candidate in candidates:
        if candidate not in seen:
            seen.add(candidate)
            yield candidate
