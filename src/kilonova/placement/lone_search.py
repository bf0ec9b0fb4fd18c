# SPDX-License-Identifier: Apache-2.0
"""The search for candidates among lone providers: roots without children that use no sharing providers.

A lone provider gives the resources of all groups of a request, or is no candidate. If all providers are lone, as in
most clouds, a few conditions on whole columns replace the search in trees.
"""

from collections.abc import Hashable, Iterator, Mapping

import numpy as np

from kilonova.placement.candidate_query import CandidateQuery, Group
from kilonova.placement.capacity import has_room
from kilonova.placement.provider_table import BoolArray, IntArray, ProviderTable
from kilonova.placement.provider_tree import ProviderTrees


def rows_that_serve(
    table: ProviderTable, trees: ProviderTrees, query: CandidateQuery
) -> tuple[IntArray, Mapping[str, int]]:
    """Return the rows of the providers that are candidates, in table order, and the resources taken from each provider.

    All providers of ``trees`` must be lone.
    """
    totals: dict[str, int] = {}
    shared: list[str] = []
    for group in query.groups:
        for name, amount in group.resources.items():
            if name in totals:
                shared.append(name)
            totals[name] = totals.get(name, 0) + amount
    if must_be_apart(query):
        return np.empty(0, dtype=np.int64), totals
    serves = trees.is_root.copy()  # True for every provider, because every lone provider is a root
    different = query.groups if len(query.groups) == 1 else {asked_by(group): group for group in query.groups}.values()
    for group in different:
        for fits in conditions(table, group):
            serves &= fits
    for fits in root_conditions(table, query):
        serves &= fits
    return with_room_for_totals(table, serves.nonzero()[0], {name: totals[name] for name in shared}), totals


def asked_by(group: Group) -> Hashable:
    """Return a key of a group's conditions, without its suffix. Groups with equal keys can use the same providers."""
    return (
        tuple(sorted(group.resources.items())),
        tuple(group.required),
        group.forbidden,
        tuple(group.member_of),
        group.not_member_of,
        group.in_tree,
    )


def conditions(table: ProviderTable, group: Group) -> Iterator[BoolArray]:
    """Yield masks of the providers that meet the conditions for giving all resources of a group. Shapes: → (P,)."""
    for name, amount in group.resources.items():
        column = table.column(name)
        yield np.zeros(len(table), dtype=np.bool_) if column is None else has_room(table, column, amount)
    yield from own_conditions(table, group)
    for names in group.required:
        yield table.has_any_trait(names)
    for members in group.member_of:
        yield table.in_any_aggregate(members)
    if group.not_member_of:
        yield ~table.in_any_aggregate(group.not_member_of)


def own_conditions(table: ProviderTable, group: Group) -> Iterator[BoolArray]:
    """Yield masks of the providers that meet the conditions for giving even a part of a group. Shapes: → (P,)."""
    if group.forbidden:
        yield ~table.has_any_trait(group.forbidden)
    if group.in_tree is not None:
        row = table.row_of.get(group.in_tree)
        yield np.zeros(len(table), dtype=np.bool_) if row is None else table.root == table.root[row]


def root_conditions(table: ProviderTable, query: CandidateQuery) -> Iterator[BoolArray]:
    """Yield masks of the providers that meet the query's conditions on the root provider. Shapes: → (P,)."""
    for trait in query.root_required:
        yield table.has_any_trait([trait])
    if query.root_forbidden:
        yield ~table.has_any_trait(query.root_forbidden)


def must_be_apart(query: CandidateQuery) -> bool:
    """Tell whether a query isolates several groups, so that one provider alone cannot be a candidate."""
    return query.isolate and sum(bool(group.suffix) for group in query.groups) > 1


def with_room_for_totals(table: ProviderTable, rows: IntArray, totals: Mapping[str, int]) -> IntArray:
    """Return the ``rows`` with room for ``totals``, the summed amounts of the classes that several groups request."""
    for name, total in totals.items():
        column = table.column(name)
        if column is None or not len(rows):
            return np.empty(0, dtype=np.int64)
        free = table.capacity[rows, column] - table.used[rows, column]
        rows = rows[(free >= total) & (table.max_unit[rows, column] >= total)]
    return rows
