# SPDX-License-Identifier: Apache-2.0
"""The search for candidates of one anchor (root provider), in its tree and among its sharing providers."""

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from math import prod
from typing import NamedTuple

from kilonova.placement.assignment import assign
from kilonova.placement.candidate_query import CandidateQuery
from kilonova.placement.provider_table import BoolArray, ProviderTable
from kilonova.placement.search_budget import FREE_STEPS, SearchBudget

_FEW = 64
_ROWS_A_STEP = 16
_GROUPS_A_STEP = 64  # comparing a group with this many previous groups counts as one step


class TreeCandidate(NamedTuple):
    """A candidate found by search. ``amounts``: (row, column, amount). ``mappings``: suffix → rows of the providers."""

    amounts: tuple[tuple[int, int, int], ...]
    mappings: tuple[tuple[str, tuple[int, ...]], ...]


class Choice(NamedTuple):
    """A part of a request that one provider must give: a class of the group without suffix, or a group with a suffix.

    ``amounts``: (column, amount) pairs. ``rows``: the possible providers.
    """

    suffix: str
    amounts: tuple[tuple[int, int], ...]
    rows: list[int]


class TreeSearch:
    """Depth-first search for a provider of each choice. States that lead to no candidate are cached."""

    def __init__(
        self,
        table: ProviderTable,
        query: CandidateQuery,
        required: Sequence[BoolArray],
        choices: Sequence[Choice],
        spread_size: int,
        budget: SearchBudget,
    ) -> None:
        self._table = table
        self._budget = budget
        self._free_steps = FREE_STEPS
        self._choices = choices
        self._spread_size = spread_size
        self._isolate = query.isolate
        givers = {row for choice in choices[:spread_size] for row in choice.rows}
        self._required = [{row for row in givers if having[row]} for having in required]
        position = {choice.suffix: index for index, choice in enumerate(choices) if index >= spread_size}
        self._by_suffix = sorted(position.items())
        self._subtrees: dict[int, list[list[int]]] = {}
        for suffixes in query.same_subtrees:
            members = sorted(position[suffix] for suffix in suffixes)
            self._subtrees.setdefault(members[-1], []).append(members)
        self._watched = sorted({index for groups in self._subtrees.values() for members in groups for index in members})
        # In a small tree, searching again is cheaper than the cache.
        self._remembers = prod(len(choice.rows) for choice in choices) > _FEW
        self._chosen: list[int] = [-1] * len(choices)
        self._taken: dict[tuple[int, int], int] = {}
        self._room: dict[tuple[int, int], int] = {}
        self._lineage: dict[int, frozenset[int]] = {}
        self._dead: set[Hashable] = set()

    def run(self) -> Iterator[TreeCandidate]:
        """Yield the candidates. The search is iterative, because the number of groups could exceed the recursion limit.

        Raises: SearchTooLarge.
        """
        last = len(self._choices) - 1
        pending = [iter(self._choices[0].rows)]
        states: list[Hashable | None] = [self._state(0)] + [None] * last
        fruitful = [False] * (last + 1)
        while pending:
            index = len(pending) - 1
            for row in pending[index]:
                if self._take(index, row):
                    break
            else:
                pending.pop()
                if not fruitful[index] and states[index] is not None:
                    self._dead.add(states[index])
                if index:
                    fruitful[index - 1] |= fruitful[index]
                    self._give_back(index - 1)
                continue
            if index == last:
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
        """Return a key of everything that determines the rest of the search, or None if the state is not cached."""
        if index < self._spread_size or not self._remembers:
            return None
        isolated = frozenset(self._chosen[self._spread_size : index]) if self._isolate else None
        watched = tuple(self._chosen[position] for position in self._watched if position < index)
        return index, frozenset(item for item in self._taken.items() if item[1]), isolated, watched

    def _take(self, index: int, row: int) -> bool:
        """Assign the provider at ``row`` to the choice at ``index``.

        Return False if the provider has no room, or if the choices so far violate a condition of the query.
        """
        choice = self._choices[index]
        if self._free_steps > 0:  # the code of _count(), inlined because this is the innermost loop
            self._free_steps -= 1
        else:
            self._budget.spend(1 + index // _GROUPS_A_STEP)
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

    def _count(self, steps: int) -> None:
        """Count steps of this tree's search. Raises: SearchTooLarge."""
        if self._free_steps >= steps:
            self._free_steps -= steps
        else:
            self._budget.spend(steps)

    def _give_back(self, index: int) -> None:
        row = self._chosen[index]
        for column, amount in self._choices[index].amounts:
            self._taken[row, column] -= amount

    def _room_of(self, cell: tuple[int, int]) -> int:
        room = self._room.get(cell)
        if room is None:
            table = self._table
            room = min(table.capacity.item(cell) - table.used.item(cell), table.max_unit.item(cell))
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
        """Return the rows of a provider and of all its ancestors."""
        line = self._lineage.get(row)
        if line is None:
            rows = [row]
            while (above := int(self._table.parent[rows[-1]])) >= 0:
                rows.append(above)
            line = self._lineage[row] = frozenset(rows)
        return line

    def _candidate(self) -> TreeCandidate:
        self._count(len(self._choices))
        chosen, spread = self._chosen, self._spread_size
        served = [("", tuple(sorted(set(chosen[:spread]))))] if spread else []
        served += [(suffix, (chosen[index],)) for suffix, index in self._by_suffix]
        amounts = sorted([(row, column, amount) for (row, column), amount in self._taken.items() if amount])
        return TreeCandidate(tuple(amounts), tuple(served))


def tree_candidate(amounts: Iterable[tuple[int, int, int]], mappings: Mapping[str, set[int]]) -> TreeCandidate:
    served = tuple((suffix, tuple(sorted(rows))) for suffix, rows in sorted(mappings.items()))
    return TreeCandidate(tuple(sorted(amounts)), served)


def can_isolate(options: Sequence[Sequence[int]], budget: SearchBudget) -> bool:
    """Tell whether all groups can have different providers; decided by a bipartite matching.

    Raises: SearchTooLarge.
    """

    def spend(group: int) -> None:
        budget.spend(1 + len(options[group]) // _ROWS_A_STEP)

    return assign(options, on_move=spend) is not None
