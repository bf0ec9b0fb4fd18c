# SPDX-License-Identifier: Apache-2.0
"""The search for allocation candidates: conditions on whole columns first, then a search in single provider trees."""

from collections.abc import Hashable, Iterable, Iterator, Mapping
from itertools import chain, islice

import numpy as np

from kilonova.placement.candidate_query import CandidateQuery, Group
from kilonova.placement.capacity import has_room
from kilonova.placement.lone_search import (
    asked_by,
    conditions,
    must_be_apart,
    own_conditions,
    root_conditions,
    with_room_for_totals,
)
from kilonova.placement.provider_table import BoolArray, IntArray, ProviderTable
from kilonova.placement.provider_tree import ProviderTrees
from kilonova.placement.search_budget import SearchBudget
from kilonova.placement.tree_search import Choice, TreeCandidate, TreeSearch, can_isolate, tree_candidate
from kilonova.records import dataclass

_MATCHED_GROUPS = 200  # a query with more groups is not checked by can_isolate(), only by the tree search
_SLICE = 256


@dataclass(slots=True)
class _Spread:
    """The request group without suffix, which may take each resource class from a different provider.

    ``own_tree``: class → (P,) mask of the providers that can give the class within their own tree. ``via_sharing``:
    class → (S,) mask of the sharing providers that can give the class to other trees. ``excluded``: the anchors (root
    providers) that may not use sharing providers.
    """

    amounts: Mapping[str, int]
    own_tree: dict[str, BoolArray]
    via_sharing: dict[str, BoolArray]
    excluded: BoolArray | None
    required: tuple[BoolArray, ...]


class CandidateSearch:
    """The search for the candidates of one query in one provider table."""

    def __init__(self, table: ProviderTable, trees: ProviderTrees, query: CandidateQuery, budget: SearchBudget) -> None:
        self._table = table
        self._budget = budget
        self._trees = trees
        self._query = query
        self.totals: dict[str, int] = {}
        shared: dict[str, None] = {}
        for group in query.groups:
            for name, amount in group.resources.items():
                if name in self.totals:
                    shared[name] = None
                self.totals[name] = self.totals.get(name, 0) + amount
        self._shared_classes = list(shared)
        self._granular = tuple(group for group in query.groups if group.suffix)
        memo: dict[Hashable, BoolArray] = {}
        self._fits = tuple(self._fitting(group, memo) for group in self._granular)
        #: One mask per distinct group; equal groups share a mask.
        self._different = tuple(memo.values())
        spread = [group for group in query.groups if not group.suffix]
        self._spread = self._spread_of(spread[0]) if spread else None
        self._taken_by = tuple(self._taken(group.resources) for group in self._granular)
        self._taken_of = {
            name: self._taken({name: amount}) for name, amount in (self._spread.amounts.items() if self._spread else ())
        }

    # --- conditions on whole columns ----------------------------------------------------------------------------------

    def _fitting(self, group: Group, memo: dict[Hashable, BoolArray]) -> BoolArray:
        """Return the providers that can give all resources of a group with a suffix. Equal groups share the result."""
        key = asked_by(group)
        if key not in memo:
            memo[key] = self._all_of(conditions(self._table, group))
        return memo[key]

    def _all_of(self, masks: Iterable[BoolArray]) -> BoolArray:
        found = np.ones(len(self._table), dtype=np.bool_)
        for mask in masks:
            found &= mask
        return found

    def _spread_of(self, group: Group) -> _Spread:
        table, sharing = self._table, self._trees.sharing
        home: dict[str, BoolArray] = {}
        for name, amount in group.resources.items():
            column = table.column(name)
            home[name] = np.zeros(len(table), dtype=np.bool_) if column is None else has_room(table, column, amount)
        away = {name: room[sharing] for name, room in home.items()}
        excluded = table.in_any_aggregate(group.not_member_of) if group.not_member_of else None
        if group.forbidden or group.member_of or excluded is not None or group.in_tree is not None:
            own_tree, via_sharing = self._allowed(group, excluded)
            home = {name: room & own_tree for name, room in home.items()}
            away = {name: room & via_sharing[sharing] for name, room in away.items()}
        required = tuple(table.has_any_trait(names) for names in group.required)
        return _Spread(group.resources, home, away, excluded, required)

    def _allowed(self, group: Group, excluded: BoolArray | None) -> tuple[BoolArray, BoolArray]:
        """Return two masks of providers that the group without suffix may use.

        The first mask is for use within the provider's own tree, the second one for sharing with other trees.
        Shapes: → (P,), (P,).
        """
        table, root = self._table, self._table.root
        suits = self._all_of(own_conditions(table, group))
        if excluded is None:
            excluded = np.zeros(len(table), dtype=np.bool_)
        members = self._all_of(table.in_any_aggregate(names) for names in group.member_of)
        # If a root is in an aggregate, its whole tree counts as a member. A sharing provider must itself be a member.
        own_tree = suits & (members | members[root]) & ~(excluded | excluded[root])
        return own_tree, suits & members & ~excluded if group.in_tree is None else np.zeros_like(suits)

    def viable_anchors(self) -> BoolArray:
        """Return the anchors (root providers) that meet the necessary conditions of the query. Shapes: → (P,).

        For lone roots, these conditions and the check of :meth:`lone_rows` are sufficient.
        """
        anchors = self._trees.is_root & self._all_of(root_conditions(self._table, self._query))
        for fits in self._different:
            anchors &= self._anchors_of(fits, fits[self._trees.sharing])
        if self._spread is not None:
            anchors &= self._all_of(self._anchors_of_spread(self._spread))
        if not anchors.any() or self._trees.lone[anchors].all():
            return anchors
        return anchors & (self._trees.lone | self._enough_together())

    def _anchors_of(self, own_tree: BoolArray, via_sharing: BoolArray) -> BoolArray:
        """Return the anchors that have a provider of ``own_tree`` in their tree or reach one of ``via_sharing``.

        Shapes: masks (P,), (S,) → (P,).
        """
        if not self._trees.any_nested and not len(self._trees.sharing):
            return own_tree
        found = np.zeros(len(self._table), dtype=np.bool_)
        found[self._table.root[own_tree]] = True
        if via_sharing.any():
            found |= self._trees.reach[via_sharing].any(axis=0)
        return found

    def _anchors_of_spread(self, spread: _Spread) -> Iterator[BoolArray]:
        """Yield masks of the anchors that meet the necessary conditions of the group without suffix. Shapes: → (P,)."""
        givers = np.zeros(len(self._table), dtype=np.bool_)
        for name in spread.amounts:
            own_tree, via_sharing = spread.own_tree[name], spread.via_sharing[name]
            found = self._anchors_of(own_tree, np.zeros_like(via_sharing))
            if via_sharing.any():
                reached = self._trees.reach[via_sharing].any(axis=0)
                found = found | (reached if spread.excluded is None else reached & ~spread.excluded)
            yield found
            givers |= own_tree
            givers[self._trees.sharing[via_sharing]] = True
        for having in spread.required:
            useful = givers & having
            yield self._anchors_of(useful, useful[self._trees.sharing])

    def _enough_together(self) -> BoolArray:
        """Return the anchors whose providers together have enough resources, and enough providers for isolated groups.

        This condition is necessary, but not sufficient. Shapes: → (P,).
        """
        table, trees = self._table, self._trees
        enough = np.ones(len(table), dtype=np.bool_)
        if self._query.isolate and len(self._granular) > 1:
            any_group = np.logical_or.reduce(self._fits)
            enough &= self._sum_at_anchors(any_group.astype(np.int64)) >= len(self._granular)
        elif len(self._granular) > 1 and self._groups_ask_alike():
            enough &= self._sum_at_anchors(self._copies()) >= len(self._granular)
        for name in self._shared_classes:
            column = table.column(name)
            assert column is not None  # without a column no provider has the class, so no anchor is left to check
            givers = [fits for group, fits in zip(self._granular, self._fits, strict=True) if name in group.resources]
            if self._spread is not None and name in self._spread.amounts:
                anywhere = self._spread.own_tree[name].copy()
                anywhere[trees.sharing[self._spread.via_sharing[name]]] = True
                givers.append(anywhere)
            free = np.minimum(table.capacity[:, column] - table.used[:, column], table.max_unit[:, column])
            free = np.where(np.logical_or.reduce(givers), free, 0)
            enough &= self._sum_at_anchors(free) >= self.totals[name]
        return enough

    def _sum_at_anchors(self, amounts: IntArray) -> IntArray:
        """Sum ``amounts`` over the providers that each anchor can use. Shapes: (P,) → (P,), valid at roots only."""
        return self._sum(amounts, amounts[self._trees.sharing], None)

    def _sum(self, own_tree: IntArray, via_sharing: IntArray, barred: BoolArray | None) -> IntArray:
        """Return, for each anchor, the sum of the values of the providers in its tree and of its sharing providers.

        ``barred``: anchors that may not use sharing providers. Shapes: (P,), (S,) → (P,).
        """
        sums = np.zeros(len(self._table), dtype=np.int64)
        rows = np.flatnonzero(own_tree)
        np.add.at(sums, self._table.root[rows], own_tree[rows])
        for index in np.flatnonzero(via_sharing):
            reached = self._trees.reach[index]
            sums[reached if barred is None else reached & ~barred] += via_sharing[index]
        return sums

    def lone_rows(self, anchors: BoolArray) -> IntArray:
        """Return the rows of the lone anchors that can give the resources of all groups together."""
        if must_be_apart(self._query):
            return np.empty(0, dtype=np.int64)
        rows = np.flatnonzero(anchors & self._trees.lone)
        return with_room_for_totals(self._table, rows, {name: self.totals[name] for name in self._shared_classes})

    # --- anchors with only one possible candidate ---------------------------------------------------------------------

    def without_choice(self, anchors: BoolArray) -> tuple[IntArray, IntArray, BoolArray]:
        """Handle the anchors at which each resource class and each group has exactly one possible provider.

        Return three results. (N,): the rows of the providers that give everything alone at such an anchor. (M, C): for
        the other anchors of this kind, the provider of each choice. (P,): the mask of the anchors that need a search.
        If the query has conditions across several providers, other than isolation and traits, all anchors need a
        search.
        """
        none, table, trees = np.empty(0, dtype=np.int64), self._table, self._trees
        choices = self._choices()
        if not anchors.any() or self._query.same_subtrees or self._shared_classes or not self._query.nested:
            return none, np.empty((0, len(choices)), dtype=np.int64), anchors
        decided = anchors.copy()
        columns: list[IntArray] = []
        rows = np.arange(len(table))
        for own_tree, via_sharing, barred in choices:
            decided &= self._sum(own_tree.astype(np.int64), via_sharing.astype(np.int64), barred) == 1
            columns.append(self._sum(np.where(own_tree, rows, 0), np.where(via_sharing, trees.sharing, 0), barred))
        at = np.flatnonzero(decided)
        chosen = np.stack([column[at] for column in columns], axis=1)
        spread = len(self._taken_of)
        fits = np.ones(len(at), dtype=np.bool_)
        for having in self._spread.required if self._spread is not None else ():
            fits &= having[chosen[:, :spread]].any(axis=1)
        if self._query.isolate:
            granular = np.sort(chosen[:, spread:], axis=1)
            fits &= (granular[:, 1:] != granular[:, :-1]).all(axis=1)
        at, chosen = at[fits], chosen[fits]
        alone = (chosen == chosen[:, :1]).all(axis=1) & (table.root[chosen[:, 0]] == at)
        # A sharing provider that gives everything can occur at several anchors, but is only one candidate.
        alone &= ~np.isin(chosen[:, 0], trees.sharing)
        return chosen[alone, 0], chosen[~alone], anchors & ~decided

    def _choices(self) -> list[tuple[BoolArray, BoolArray, BoolArray | None]]:
        """Return masks of possible providers, for each class of the group without suffix and for each group with a
        suffix.

        Shapes: own tree (P,), via sharing (S,), the anchors that may not use sharing providers (P,).
        """
        spread = self._spread
        found: list[tuple[BoolArray, BoolArray, BoolArray | None]] = []
        if spread is not None:
            found += [(spread.own_tree[name], spread.via_sharing[name], spread.excluded) for name in self._taken_of]
        return found + [(fits, fits[self._trees.sharing], None) for fits in self._fits]

    def built(self, chosen: IntArray) -> Iterator[TreeCandidate]:
        """Build one candidate per row of ``chosen``. A row has the provider of each choice. Shapes: (M, C)."""
        taken = [*self._taken_of.values(), *self._taken_by]
        suffixes = ["" for _ in self._taken_of] + [group.suffix for group in self._granular]
        some = (chosen[start : start + _SLICE].tolist() for start in range(0, len(chosen), _SLICE))
        for rows in chain.from_iterable(some):
            amounts = [(row, column, amount) for row, what in zip(rows, taken, strict=True) for column, amount in what]
            mappings: dict[str, set[int]] = {}
            for suffix, row in zip(suffixes, rows, strict=True):
                mappings.setdefault(suffix, set()).add(row)
            yield tree_candidate(amounts, mappings)

    # --- one anchor at a time -----------------------------------------------------------------------------------------

    def through_trees(self, anchors: Iterable[int], rng: np.random.Generator | None) -> Iterator[TreeCandidate]:
        """Return an iterator of the candidates of all ``anchors``. Several anchors may yield the same candidate.

        In random or breadth-first order, the anchors take turns. In any other order, all candidates of one anchor come
        before those of the next anchor.
        """
        searches = (self.of_anchor(int(anchor), rng) for anchor in anchors)
        found = _in_turn(searches) if self._query.breadth_first or rng is not None else chain.from_iterable(searches)
        if not self._query.nested:
            found = filter(self._one_provider_a_tree, found)
        return found

    def _one_provider_a_tree(self, candidate: TreeCandidate) -> bool:
        rows = {row for row, _, _ in candidate.amounts}
        return len({int(self._table.root[row]) for row in rows}) == len(rows)

    def groups_are_independent(self) -> bool:
        """Tell whether the provider of each class and group can be chosen independently of the others.

        If so, each anchor of :meth:`viable_anchors` that is not lone has a candidate. The result is True for equal
        groups, too: a viable anchor has providers with room for all of them.
        """
        query, spread = self._query, self._spread
        if query.same_subtrees or not query.nested or (spread is not None and len(spread.required) > 1):
            return False
        if len(self._granular) > 1 and self._groups_ask_alike():
            return spread is None or spread.amounts.keys().isdisjoint(self._granular[0].resources)
        return not self._shared_classes and (not query.isolate or len(self._granular) <= 1)

    def _groups_ask_alike(self) -> bool:
        return len(self._different) == 1

    def _copies(self) -> IntArray:
        """Return how many copies of the first group with a suffix fit on each provider at once. Shapes: → (P,)."""
        table, copies = self._table, self._fits[0].astype(np.int64) * len(self._granular)
        for column, amount in self._taken_by[0]:
            free = np.minimum(table.capacity[:, column] - table.used[:, column], table.max_unit[:, column])
            copies = np.minimum(copies, free // amount)
        return np.where(self._fits[0], copies, 0)

    def of_anchor(self, anchor: int, rng: np.random.Generator | None) -> Iterator[TreeCandidate]:
        """Return an iterator of the candidates of one anchor. Raises: SearchTooLarge."""
        self._budget.check()
        rows = self._trees.of_root(anchor)
        shared = np.flatnonzero(self._trees.reach[:, anchor]) if len(self._trees.sharing) else rows[:0]
        guests = self._trees.sharing[shared]
        choices: list[Choice] = []
        spread = self._spread
        if spread is not None:
            for name, taken in self._taken_of.items():
                options = rows[spread.own_tree[name][rows]]
                if len(guests) and (spread.excluded is None or not spread.excluded[anchor]):
                    options = np.concatenate([options, guests[spread.via_sharing[name][shared]]])
                choices.append(Choice("", taken, options.tolist()))
        spread_size = len(choices)
        reachable = np.concatenate([rows, guests]) if len(guests) else rows
        of_alike = {id(fits): reachable[fits[reachable]].tolist() for fits in self._different}
        for group, fits, taken in zip(self._granular, self._fits, self._taken_by, strict=True):
            choices.append(Choice(group.suffix, taken, of_alike[id(fits)]))
        # The group with the fewest possible providers comes first, so that dead ends are found early.
        choices[spread_size:] = sorted(choices[spread_size:], key=lambda choice: len(choice.rows))
        if rng is not None:
            choices = [
                choice._replace(rows=[choice.rows[i] for i in rng.permutation(len(choice.rows))]) for choice in choices
            ]
        granular = [choice.rows for choice in choices[spread_size:]]
        if self._query.isolate and len(granular) <= _MATCHED_GROUPS and not can_isolate(granular, self._budget):
            return iter(())
        required = spread.required if spread else ()
        return TreeSearch(self._table, self._query, required, choices, spread_size, self._budget).run()

    def _taken(self, resources: Mapping[str, int]) -> tuple[tuple[int, int], ...]:
        columns = ((self._table.column(name), amount) for name, amount in resources.items())
        return tuple((column, amount) for column, amount in columns if column is not None)


def _in_turn(searches: Iterable[Iterator[TreeCandidate]]) -> Iterator[TreeCandidate]:
    """Yield round-robin: the first candidate of each search, then the second of each, and so on."""
    going: list[Iterator[TreeCandidate]] = []
    for search in searches:
        for candidate in islice(search, 1):
            yield candidate
            going.append(search)
    while going:
        still: list[Iterator[TreeCandidate]] = []
        for search in going:
            for candidate in islice(search, 1):
                yield candidate
                still.append(search)
        going = still
