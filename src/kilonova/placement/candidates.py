# SPDX-License-Identifier: Apache-2.0
"""Allocation candidates: every way in which a request could be allocated right now.

::

    groups ─▶ per group, the providers that could serve it (P,) ─▶ per anchor, whether every group finds one (P,)
           ─▶ lone anchors, and those that leave no choice: whole columns at a time
           ─▶ other anchors: one at a time, a search that stops as soon as enough candidates are found

A group with a suffix takes everything from one provider. The group without may spread its classes over the tree of the
anchor and what is shared with it; its traits must then be met by the providers used together.

Source: Placement API reference, `GET /allocation_candidates`.
"""

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from math import prod
from typing import NamedTuple

import numpy as np

from kilonova.placement.capacity import has_room, has_room_for_all
from kilonova.placement.provider_table import BoolArray, IntArray, ProviderTable
from kilonova.placement.provider_tree import ProviderTrees, trees_of

_MATCHED_GROUPS = 200  # more are left to the search
_FEW = 64
_SLICE = 256


@dataclass(frozen=True, slots=True)
class Group:
    """One request group. ``required`` and ``member_of``: each inner set needs one of its members.

    ``in_tree``: uuid of a provider to whose tree everything must belong.
    """

    suffix: str = ""
    resources: Mapping[str, int] = field(default_factory=dict)
    required: Sequence[frozenset[str]] = ()
    forbidden: frozenset[str] = frozenset()
    member_of: Sequence[frozenset[str]] = ()
    not_member_of: frozenset[str] = frozenset()
    in_tree: str | None = None


@dataclass(frozen=True, slots=True)
class CandidateQuery:
    """A request for candidates.

    ``limit``: at most so many; ``maximum``: at most so many are ever generated (-1: any number).
    ``isolate``: groups with a suffix use different providers.
    ``same_subtrees``: of each set of groups, all with a suffix, the providers are below, or equal to, one of them.
    ``root_required``, ``root_forbidden``: traits of the anchor.
    ``nested``: whether the caller understands more than one provider of a tree in a candidate (1.29).
    ``breadth_first``: one candidate of each anchor before the second of any.
    """

    groups: tuple[Group, ...]
    limit: int | None = None
    maximum: int = -1
    isolate: bool = False
    same_subtrees: tuple[frozenset[str], ...] = ()
    root_required: frozenset[str] = frozenset()
    root_forbidden: frozenset[str] = frozenset()
    nested: bool = True
    breadth_first: bool = False


class TreeCandidate(NamedTuple):
    """A candidate found by search. ``amounts``: (row, column, amount). ``mappings``: suffix → rows that serve it."""

    amounts: tuple[tuple[int, int, int], ...]
    mappings: tuple[tuple[str, tuple[int, ...]], ...]


@dataclass(frozen=True, slots=True)
class Candidates:
    """What was found. Candidate ``i`` is row ``single[i]``, then come those of ``trees``; ``order`` permutes them all.

    ``single``: (N,) providers each of which serves all groups. ``totals``: what is taken of such a one.
    ``summarised``: (M,) providers that the answer describes.
    """

    single: IntArray
    totals: Mapping[str, int]
    trees: tuple[TreeCandidate, ...]
    summarised: IntArray
    order: IntArray | None = None

    def __len__(self) -> int:
        return len(self.single) + len(self.trees)


def find_candidates(table: ProviderTable, query: CandidateQuery, rng: np.random.Generator | None = None) -> Candidates:
    """Return candidates in a fixed order or, with ``rng``, a random choice of them in random order.

    Resource classes, traits, aggregates and trees that no provider knows match nothing.
    """
    wanted = _wanted(query)
    trees = trees_of(table)
    search = _Search(table, trees, query)
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


def roots_with_candidates(table: ProviderTable, query: CandidateQuery, among: BoolArray) -> BoolArray:
    """Return which roots ``among`` others have at least one candidate. Limits are not looked at. Shapes: (P,) → (P,).

    Trees are searched one by one only where no rule on whole columns can tell.
    """
    trees = trees_of(table)
    search = _Search(table, trees, query)
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
    """Return the first candidate that hangs on ``root``, None when there is none. Limits are not looked at."""
    search = _Search(table, trees_of(table), query)
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


@dataclass(slots=True)
class _Spread:
    """The group without suffix, a class at a time: which rows may give it at home, and which may share it abroad."""

    amounts: Mapping[str, int]
    at_home: dict[str, BoolArray]
    abroad: dict[str, BoolArray]
    bad: BoolArray
    required: tuple[BoolArray, ...]


class _Search:
    """One request on one table."""

    def __init__(self, table: ProviderTable, trees: ProviderTrees, query: CandidateQuery) -> None:
        self._table = table
        self._trees = trees
        self._query = query
        self._counts: Counter[str] = Counter()
        for group in query.groups:
            self._counts.update(group.resources)
        self.totals = {name: int(amount) for name, amount in self._counts.items()}
        asked = Counter(name for group in query.groups for name in group.resources)
        self._shared_classes = [name for name, groups in asked.items() if groups > 1]
        self._granular = tuple(group for group in query.groups if group.suffix)
        memo: dict[Hashable, BoolArray] = {}
        self._fits = tuple(self._fitting(group, memo) for group in self._granular)
        spread = [group for group in query.groups if not group.suffix]
        self._spread = self._spread_of(spread[0]) if spread else None
        self._taken_by = tuple(self._taken(group.resources) for group in self._granular)
        self._taken_of = {
            name: self._taken({name: amount}) for name, amount in (self._spread.amounts.items() if self._spread else ())
        }

    # --- what fits where, whole columns ------------------------------------------------------------------------------

    def _fitting(self, group: Group, memo: dict[Hashable, BoolArray]) -> BoolArray:
        """Return which providers could serve a group with a suffix, working out groups that ask alike once."""
        key = (
            tuple(sorted(group.resources.items())),
            tuple(group.required),
            group.forbidden,
            tuple(group.member_of),
            group.not_member_of,
            group.in_tree,
        )
        if key not in memo:
            memo[key] = has_room_for_all(self._table, group.resources) & self._suits(group, traits=True)
            for members in group.member_of:
                memo[key] = memo[key] & self._table.in_any_aggregate(members)
            if group.not_member_of:
                memo[key] = memo[key] & ~self._table.in_any_aggregate(group.not_member_of)
        return memo[key]

    def _suits(self, group: Group, *, traits: bool) -> BoolArray:
        """Return which providers are in the tree, have no forbidden trait and, if ``traits``, every required one."""
        suits = np.ones(len(self._table), dtype=np.bool_)
        if group.forbidden:
            suits &= ~self._table.has_any_trait(group.forbidden)
        for names in group.required if traits else ():
            suits &= self._table.has_any_trait(names)
        if group.in_tree is not None:
            row = self._table.row_of.get(group.in_tree)
            suits &= np.zeros_like(suits) if row is None else self._table.root == self._table.root[row]
        return suits

    def _spread_of(self, group: Group) -> _Spread:
        table, root = self._table, self._table.root
        suits = self._suits(group, traits=False)
        members = np.ones(len(table), dtype=np.bool_)
        for names in group.member_of:
            members &= table.in_any_aggregate(names)
        bad = table.in_any_aggregate(group.not_member_of)
        # An aggregate of the root spans its tree; a provider that shares must be a member itself.
        at_home = suits & (members | members[root]) & ~(bad | bad[root])
        abroad = suits & members & ~bad if group.in_tree is None else np.zeros_like(suits)
        home: dict[str, BoolArray] = {}
        away: dict[str, BoolArray] = {}
        for name, amount in group.resources.items():
            column = table.column(name)
            room = np.zeros_like(suits) if column is None else has_room(table, column, amount)
            home[name], away[name] = room & at_home, (room & abroad)[self._trees.sharing]
        required = tuple(table.has_any_trait(names) for names in group.required)
        return _Spread(group.resources, home, away, bad, required)

    def viable_anchors(self) -> BoolArray:
        """Return the roots where nothing obvious is missing; for lone ones it is the whole truth but for the totals."""
        table, query = self._table, self._query
        anchors = self._trees.is_root.copy()
        for trait in query.root_required:
            anchors &= table.has_any_trait([trait])
        if query.root_forbidden:
            anchors &= ~table.has_any_trait(query.root_forbidden)
        for fits in {id(fits): fits for fits in self._fits}.values():
            anchors &= self._anchors_of(fits, fits[self._trees.sharing])
        if self._spread is not None:
            anchors &= self._anchors_of_spread(self._spread)
        if not anchors.any() or self._trees.lone[anchors].all():
            return anchors
        return anchors & (self._trees.lone | self._enough_together())

    def _anchors_of(self, at_home: BoolArray, abroad: BoolArray) -> BoolArray:
        """Return the anchors that have a row of ``at_home`` (P,) in their tree, or one of ``abroad`` (S,) shared."""
        if not self._trees.any_nested and not len(self._trees.sharing):
            return at_home
        found = np.zeros(len(self._table), dtype=np.bool_)
        found[self._table.root[at_home]] = True
        if abroad.any():
            found |= self._trees.reach[abroad].any(axis=0)
        return found

    def _anchors_of_spread(self, spread: _Spread) -> BoolArray:
        anchors = np.ones(len(self._table), dtype=np.bool_)
        givers = np.zeros(len(self._table), dtype=np.bool_)
        for name in spread.amounts:
            at_home, abroad = spread.at_home[name], spread.abroad[name]
            found = self._anchors_of(at_home, np.zeros_like(abroad))
            if abroad.any():
                found = found | (self._trees.reach[abroad].any(axis=0) & ~spread.bad)
            anchors &= found
            givers |= at_home
            givers[self._trees.sharing[abroad]] = True
        for having in spread.required:
            useful = givers & having
            anchors &= self._anchors_of(useful, useful[self._trees.sharing])
        return anchors

    def _enough_together(self) -> BoolArray:
        """Return the anchors whose providers have enough in sum, and are enough in number to isolate the groups.

        Shapes: → (P,). Necessary, not sufficient.
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
            assert column is not None  # or no anchor would be left
            givers = [fits for group, fits in zip(self._granular, self._fits, strict=True) if name in group.resources]
            if self._spread is not None and name in self._spread.amounts:
                anywhere = self._spread.at_home[name].copy()
                anywhere[trees.sharing[self._spread.abroad[name]]] = True
                givers.append(anywhere)
            free = np.minimum(table.capacity[:, column] - table.used[:, column], table.max_unit[:, column])
            free = np.where(np.logical_or.reduce(givers), free, 0)
            enough &= self._sum_at_anchors(free) >= self.totals[name]
        return enough

    def _sum_at_anchors(self, amounts: IntArray) -> IntArray:
        """Add up over what each anchor may use. Shapes: (P,) → (P,), meaningful at roots."""
        return self._sum(amounts, amounts[self._trees.sharing], None)

    def _sum(self, at_home: IntArray, abroad: IntArray, barred: BoolArray | None) -> IntArray:
        """Add up, at each anchor, over its tree and what is shared with it unless barred. Shapes: (P,), (S,) → (P,)."""
        sums = np.zeros(len(self._table), dtype=np.int64)
        rows = np.flatnonzero(at_home)
        np.add.at(sums, self._table.root[rows], at_home[rows])
        for index in np.flatnonzero(abroad):
            reached = self._trees.reach[index]
            sums[reached if barred is None else reached & ~barred] += abroad[index]
        return sums

    def lone_rows(self, anchors: BoolArray) -> IntArray:
        """Return the lone anchors that serve every group at once."""
        if self._query.isolate and len(self._granular) > 1:
            return np.empty(0, dtype=np.int64)
        rows = np.flatnonzero(anchors & self._trees.lone)
        table = self._table
        for name in self._shared_classes:
            column = table.column(name)
            if column is None or not len(rows):
                return np.empty(0, dtype=np.int64)
            total = self.totals[name]
            free = table.capacity[rows, column] - table.used[rows, column]
            rows = rows[(free >= total) & (table.max_unit[rows, column] >= total)]
        return rows

    # --- anchors that leave no choice ------------------------------------------------------------------------------

    def without_choice(self, anchors: BoolArray) -> tuple[IntArray, IntArray, BoolArray]:
        """Sort out the anchors where each class and each group has one provider to go to.

        Returns the rows that serve all by themselves (N,), for the other such anchors the row of each choice (M, C),
        and the anchors that are left to the search (P,). Rules that look at several providers at once, other than
        isolation and traits, leave everything to the search.
        """
        none, table, trees = np.empty(0, dtype=np.int64), self._table, self._trees
        choices = self._choices()
        if not anchors.any() or self._query.same_subtrees or self._shared_classes or not self._query.nested:
            return none, np.empty((0, len(choices)), dtype=np.int64), anchors
        decided = anchors.copy()
        columns: list[IntArray] = []
        rows = np.arange(len(table))
        for at_home, abroad, barred in choices:
            decided &= self._sum(at_home.astype(np.int64), abroad.astype(np.int64), barred) == 1
            columns.append(self._sum(np.where(at_home, rows, 0), np.where(abroad, trees.sharing, 0), barred))
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
        # What a sharing provider serves alone may come from several anchors, but only once.
        alone &= ~np.isin(chosen[:, 0], trees.sharing)
        return chosen[alone, 0], chosen[~alone], anchors & ~decided

    def _choices(self) -> list[tuple[BoolArray, BoolArray, BoolArray | None]]:
        """Return who may serve each class of the group without suffix, then each group with one.

        Shapes: at home (P,), shared (S,), the anchors at which nothing shared may be used (P,).
        """
        spread = self._spread
        found: list[tuple[BoolArray, BoolArray, BoolArray | None]] = []
        if spread is not None:
            found += [(spread.at_home[name], spread.abroad[name], spread.bad) for name in self._taken_of]
        return found + [(fits, fits[self._trees.sharing], None) for fits in self._fits]

    def built(self, chosen: IntArray) -> Iterator[TreeCandidate]:
        """Yield the candidates of these choices. Shapes: (M, C)."""
        taken = [*self._taken_of.values(), *self._taken_by]
        suffixes = ["" for _ in self._taken_of] + [group.suffix for group in self._granular]
        some = (chosen[start : start + _SLICE].tolist() for start in range(0, len(chosen), _SLICE))
        for rows in chain.from_iterable(some):
            amounts = [(row, column, amount) for row, what in zip(rows, taken, strict=True) for column, amount in what]
            mappings: dict[str, set[int]] = {}
            for suffix, row in zip(suffixes, rows, strict=True):
                mappings.setdefault(suffix, set()).add(row)
            yield _tree_candidate(amounts, mappings)

    # --- the search in one tree ---------------------------------------------------------------------------------------

    def through_trees(self, anchors: Iterable[int], rng: np.random.Generator | None) -> Iterator[TreeCandidate]:
        """Search anchor after anchor, or all in turn. Several anchors may give the same."""
        searches = (self.of_anchor(int(anchor), rng) for anchor in anchors)
        found = _in_turn(searches) if self._query.breadth_first or rng is not None else chain.from_iterable(searches)
        if not self._query.nested:
            found = filter(self._one_provider_a_tree, found)
        return found

    def _one_provider_a_tree(self, candidate: TreeCandidate) -> bool:
        rows = {row for row, _, _ in candidate.amounts}
        return len({int(self._table.root[row]) for row in rows}) == len(rows)

    def groups_are_independent(self) -> bool:
        """Tell whether each class and each group may be served without regard to the others, up to their number.

        Then an anchor of :meth:`viable_anchors` that is not lone has a candidate. Groups that ask alike are such:
        what matters is how many of them the anchor's providers can serve.
        """
        query, spread = self._query, self._spread
        if query.same_subtrees or not query.nested or (spread is not None and len(spread.required) > 1):
            return False
        if len(self._granular) > 1 and self._groups_ask_alike():
            return spread is None or spread.amounts.keys().isdisjoint(self._granular[0].resources)
        return not self._shared_classes and (not query.isolate or len(self._granular) <= 1)

    def _groups_ask_alike(self) -> bool:
        return len({id(fits) for fits in self._fits}) == 1

    def _copies(self) -> IntArray:
        """Return how often each provider can serve the first group with a suffix. Shapes: → (P,)."""
        table, copies = self._table, self._fits[0].astype(np.int64) * len(self._granular)
        for column, amount in self._taken_by[0]:
            free = np.minimum(table.capacity[:, column] - table.used[:, column], table.max_unit[:, column])
            copies = np.minimum(copies, free // amount)
        return np.where(self._fits[0], copies, 0)

    def of_anchor(self, anchor: int, rng: np.random.Generator | None) -> Iterator[TreeCandidate]:
        """Yield the candidates that hang on one anchor."""
        rows = self._trees.of_root(anchor)
        shared = np.flatnonzero(self._trees.reach[:, anchor]) if len(self._trees.sharing) else rows[:0]
        guests = self._trees.sharing[shared]
        choices: list[_Choice] = []
        spread = self._spread
        if spread is not None:
            for name, taken in self._taken_of.items():
                options = rows[spread.at_home[name][rows]]
                if len(guests) and not spread.bad[anchor]:
                    options = np.concatenate([options, guests[spread.abroad[name][shared]]])
                choices.append(_Choice("", taken, options.tolist()))
        spread_size = len(choices)
        reachable = np.concatenate([rows, guests])
        for group, fits, taken in zip(self._granular, self._fits, self._taken_by, strict=True):
            choices.append(_Choice(group.suffix, taken, reachable[fits[reachable]].tolist()))
        # The most constrained group first, so that a dead end shows early.
        choices[spread_size:] = sorted(choices[spread_size:], key=lambda choice: len(choice.rows))
        if rng is not None:
            choices = [
                replace(choice, rows=[choice.rows[i] for i in rng.permutation(len(choice.rows))]) for choice in choices
            ]
        granular = [choice.rows for choice in choices[spread_size:]]
        if self._query.isolate and len(granular) <= _MATCHED_GROUPS and not _can_isolate(granular):
            return iter(())
        return _TreeSearch(self._table, self._query, spread.required if spread else (), choices, spread_size).run()

    def _taken(self, resources: Mapping[str, int]) -> tuple[tuple[int, int], ...]:
        columns = ((self._table.column(name), amount) for name, amount in resources.items())
        return tuple((column, amount) for column, amount in columns if column is not None)


@dataclass(frozen=True, slots=True)
class _Choice:
    """Something that one provider must serve: a class of the group without suffix, or a whole group with one."""

    suffix: str
    amounts: tuple[tuple[int, int], ...]
    rows: list[int]


class _TreeSearch:
    """Choose a provider for each choice, depth first, remembering the states from which nothing was found."""

    def __init__(
        self,
        table: ProviderTable,
        query: CandidateQuery,
        required: Sequence[BoolArray],
        choices: Sequence[_Choice],
        spread_size: int,
    ) -> None:
        self._table = table
        self._choices = choices
        self._spread_size = spread_size
        self._isolate = query.isolate
        givers = {row for choice in choices[:spread_size] for row in choice.rows}
        self._required = [{row for row in givers if having[row]} for having in required]
        position = {choice.suffix: index for index, choice in enumerate(choices) if index >= spread_size}
        self._subtrees: dict[int, list[list[int]]] = {}
        for suffixes in query.same_subtrees:
            members = sorted(position[suffix] for suffix in suffixes)
            self._subtrees.setdefault(members[-1], []).append(members)
        self._watched = sorted({index for groups in self._subtrees.values() for members in groups for index in members})
        # In a small tree trying again is cheaper than remembering.
        self._remembers = prod(len(choice.rows) for choice in choices) > _FEW
        self._chosen: list[int] = [-1] * len(choices)
        self._taken: dict[tuple[int, int], int] = {}
        self._room: dict[tuple[int, int], int] = {}
        self._lineage: dict[int, frozenset[int]] = {}
        self._dead: set[Hashable] = set()

    def run(self) -> Iterator[TreeCandidate]:
        """Yield candidate after candidate. No recursion: a request may have any number of groups."""
        last = len(self._choices) - 1
        pending = [iter(self._choices[0].rows)]
        states: list[Hashable | None] = [self._state(0)] + [None] * last
        fruitful = [False] * (last + 1)
        while pending:
            index = len(pending) - 1
            if not any(self._take(index, row) for row in pending[index]):
                pending.pop()
                if not fruitful[index] and states[index] is not None:
                    self._dead.add(states[index])
                if index:
                    fruitful[index - 1] |= fruitful[index]
                    self._give_back(index - 1)
            elif index == last:
                fruitful[index] = True
                yield self._candidate()
                self._give_back(index)
            else:
                states[index + 1] = self._state(index + 1)
                if states[index + 1] in self._dead:
                    self._give_back(index)
                else:
                    fruitful[index + 1] = False
                    pending.append(iter(self._choices[index + 1].rows))

    def _state(self, index: int) -> Hashable | None:
        """Return everything that decides what can follow, None while the group without suffix is still open."""
        if index < self._spread_size or not self._remembers:
            return None
        isolated = frozenset(self._chosen[self._spread_size : index]) if self._isolate else None
        watched = tuple(self._chosen[position] for position in self._watched if position < index)
        return index, frozenset(item for item in self._taken.items() if item[1]), isolated, watched

    def _take(self, index: int, row: int) -> bool:
        """Put ``row`` at ``index`` if every rule that can be judged by now allows it."""
        choice = self._choices[index]
        if self._isolate and index >= self._spread_size and row in self._chosen[self._spread_size : index]:
            return False
        for column, amount in choice.amounts:
            cell = row, column
            if self._taken.get(cell, 0) + amount > self._room_of(cell):
                return False
        self._chosen[index] = row
        if index == self._spread_size - 1 and not self._has_traits():
            return False
        if any(not self._is_subtree(members) for members in self._subtrees.get(index, ())):
            return False
        for column, amount in choice.amounts:
            self._taken[row, column] = self._taken.get((row, column), 0) + amount
        return True

    def _give_back(self, index: int) -> None:
        row = self._chosen[index]
        for column, amount in self._choices[index].amounts:
            self._taken[row, column] -= amount

    def _room_of(self, cell: tuple[int, int]) -> int:
        room = self._room.get(cell)
        if room is None:
            table = self._table
            room = int(min(table.capacity[cell] - table.used[cell], table.max_unit[cell]))
            self._room[cell] = room
        return room

    def _has_traits(self) -> bool:
        used = set(self._chosen[: self._spread_size])
        return all(not having.isdisjoint(used) for having in self._required)

    def _is_subtree(self, members: Sequence[int]) -> bool:
        rows = {self._chosen[position] for position in members}
        common = frozenset.intersection(*(self._line_of(row) for row in rows))
        return not common.isdisjoint(rows)

    def _line_of(self, row: int) -> frozenset[int]:
        """Return a row and all its ancestors."""
        line = self._lineage.get(row)
        if line is None:
            rows = [row]
            while (above := int(self._table.parent[rows[-1]])) >= 0:
                rows.append(above)
            line = self._lineage[row] = frozenset(rows)
        return line

    def _candidate(self) -> TreeCandidate:
        mappings: dict[str, set[int]] = {}
        for choice, row in zip(self._choices, self._chosen, strict=True):
            mappings.setdefault(choice.suffix, set()).add(row)
        amounts = ((row, column, amount) for (row, column), amount in self._taken.items() if amount)
        return _tree_candidate(amounts, mappings)


def _tree_candidate(amounts: Iterable[tuple[int, int, int]], mappings: Mapping[str, set[int]]) -> TreeCandidate:
    served = tuple((suffix, tuple(sorted(rows))) for suffix, rows in sorted(mappings.items()))
    return TreeCandidate(tuple(sorted(amounts)), served)


def _can_isolate(options: Sequence[Sequence[int]]) -> bool:
    """Whether each group can have a provider of its own: a matching as large as the number of groups exists."""
    owner: dict[int, int] = {}

    def settle(group: int, tried: set[int]) -> bool:
        for row in options[group]:
            if row not in tried:
                tried.add(row)
                if row not in owner or settle(owner[row], tried):
                    owner[row] = group
                    return True
        return False

    return all(settle(group, set()) for group in range(len(options)))


def _in_turn(searches: Iterable[Iterator[TreeCandidate]]) -> Iterator[TreeCandidate]:
    """Take one from each, then the second from each, and so on."""
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


def _once(candidates: Iterable[TreeCandidate]) -> Iterator[TreeCandidate]:
    seen: set[TreeCandidate] = set()
    for candidate in candidates:
        if candidate not in seen:
            seen.add(candidate)
            yield candidate
