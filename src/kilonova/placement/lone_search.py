# SPDX-License-Identifier: Apache-2.0
"""One request on providers that stand alone: without children, and without anything that others share with them.

Such a provider serves every group of a request, or it is no candidate. Where all are like that, as in most clouds,
there is nothing to search: this is done on whole columns, and with few of them.
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
    """Return the providers that serve a request, in the table's order, and what is taken of each.

    Every provider of ``trees`` must stand alone.
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
    serves = trees.is_root.copy()  # which they all are
    different = query.groups if len(query.groups) == 1 else {asked_by(group): group for group in query.groups}.values()
    for group in different:
        for fits in conditions(table, group):
            serves &= fits
    for fits in root_conditions(table, query):
        serves &= fits
    return with_room_for_totals(table, serves.nonzero()[0], {name: totals[name] for name in shared}), totals


def asked_by(group: Group) -> Hashable:
    """Return what a group asks for, which is the same for groups that ask alike."""
    return (
        tuple(sorted(group.resources.items())),
        tuple(group.required),
        group.forbidden,
        tuple(group.member_of),
        group.not_member_of,
        group.in_tree,
    )


def conditions(table: ProviderTable, group: Group) -> Iterator[BoolArray]:
    """Yield what a provider has to meet that is to serve all of a group. Shapes: → (P,)."""
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
    """Yield what every provider has to meet that serves a part of a group. Shapes: → (P,)."""
    if group.forbidden:
        yield ~table.has_any_trait(group.forbidden)
    if group.in_tree is not None:
        row = table.row_of.get(group.in_tree)
        yield np.zeros(len(table), dtype=np.bool_) if row is None else table.root == table.root[row]


def root_conditions(table: ProviderTable, query: CandidateQuery) -> Iterator[BoolArray]:
    """Yield what a request demands of the anchor. Shapes: → (P,)."""
    for trait in query.root_required:
        yield table.has_any_trait([trait])
    if query.root_forbidden:
        yield ~table.has_any_trait(query.root_forbidden)


def must_be_apart(query: CandidateQuery) -> bool:
    """Tell whether no provider may serve all groups."""
    return query.isolate and sum(bool(group.suffix) for group in query.groups) > 1


def with_room_for_totals(table: ProviderTable, rows: IntArray, totals: Mapping[str, int]) -> IntArray:
    """Return those of ``rows`` that have room for what several groups take together of a class."""
    for name, total in totals.items():
        column = table.column(name)
        if column is None or not len(rows):
            return np.empty(0, dtype=np.int64)
        free = table.capacity[rows, column] - table.used[rows, column]
        rows = rows[(free >= total) & (table.max_unit[rows, column] >= total)]
    return rows
