# SPDX-License-Identifier: Apache-2.0
"""Requests that involve more than a host's root provider: groups with a suffix, nested and sharing providers.

If only root providers have the requested resource classes, the columns of the host table suffice for the check. All
other requests are checked by the search for allocation candidates, which also gives the allocations.
"""

from collections.abc import Mapping, Sequence
from dataclasses import field

import numpy as np

from kilonova.errors import RuleFailed, SearchTooLarge
from kilonova.model.request_spec import ResourceQuery
from kilonova.placement.candidate_query import CandidateQuery, Group
from kilonova.placement.candidates import candidate_at, roots_with_candidates
from kilonova.placement.provider_table import ProviderTable
from kilonova.placement.provider_tree import trees_of
from kilonova.records import dataclass
from kilonova.scheduler.host_table import BoolArray, HostTable

Allocations = Mapping[str, Mapping[str, int]]
"""Provider uuid → resource class → amount."""


@dataclass(frozen=True, slots=True)
class Allotment:
    """The allocations of a server on a host. ``providers``: suffix of each request group → uuid of its provider."""

    amounts: Allocations
    providers: Mapping[str, str] = field(default_factory=dict)


def classes_of_others(hosts: HostTable) -> frozenset[str]:
    """Return the resource classes that nested or sharing providers offer."""
    table = hosts.providers
    if table is None:
        return frozenset()
    return table.remember("classes of others than roots", lambda: _classes_of_others(table))


def needs_trees(hosts: HostTable, query: ResourceQuery) -> bool:
    """Tell whether ``query`` needs a search in provider trees, because the host table's columns do not suffice."""
    if hosts.providers is None:
        return False
    return bool(query.groups) or not classes_of_others(hosts).isdisjoint(query.resources)


def is_plain(hosts: HostTable, query: ResourceQuery) -> bool:
    """Tell whether every host allocates ``query`` from its root provider alone, and the query has no fallback."""
    return query.fallback is None and not needs_trees(hosts, query)


def can_serve(hosts: HostTable, query: ResourceQuery, among: BoolArray) -> BoolArray:
    """Return the hosts of ``among`` that have at least one allocation candidate for ``query``. Shapes: (H,) → (H,).

    Raises: RuleFailed, if the search exceeds its limit of steps.
    """
    table, rows = hosts.providers, hosts.provider_rows
    assert table is not None
    assert rows is not None
    roots = np.zeros(len(table), dtype=np.bool_)
    roots[rows[among]] = True
    try:
        mask: BoolArray = roots_with_candidates(table, candidate_query(query), roots)[rows]
    except SearchTooLarge as error:
        raise _given_up(error) from error
    return mask


def allotment_from_tree(hosts: HostTable, query: ResourceQuery, row: int) -> Allotment | None:
    """Return the host's first allocation candidate, or None if the host has no candidate.

    Raises: RuleFailed, if the search exceeds its limit of steps.
    """
    table, rows = hosts.providers, hosts.provider_rows
    assert table is not None
    assert rows is not None
    try:
        candidate = candidate_at(table, candidate_query(query), int(rows[row]))
    except SearchTooLarge as error:
        raise _given_up(error) from error
    if candidate is None:
        return None
    found: dict[str, dict[str, int]] = {}
    for provider, column, amount in candidate.amounts:
        found.setdefault(table.uuids[provider], {})[table.resource_classes[column]] = amount
    return Allotment(found, {suffix: table.uuids[rows[0]] for suffix, rows in candidate.mappings if suffix})


def _given_up(error: SearchTooLarge) -> RuleFailed:
    return RuleFailed(f"No host was chosen. {error.message}", rule="Placement: providers")


def candidate_query(query: ResourceQuery) -> CandidateQuery:
    """Convert a query of the scheduler into a query for allocation candidates."""
    groups = [Group(group.suffix, group.resources, _each(group.required), group.forbidden) for group in query.groups]
    root_required = query.root_required
    if query.resources:
        closed, wanted = query.forbidden_aggregates, query.member_of
        groups.append(Group("", query.resources, _each(query.required), query.forbidden, wanted, not_member_of=closed))
    else:
        root_required |= query.required
    return CandidateQuery(
        tuple(groups),
        isolate=query.isolates,
        same_subtrees=query.same_subtrees,
        root_required=root_required,
        root_forbidden=query.root_forbidden,
    )


def _classes_of_others(table: ProviderTable) -> frozenset[str]:
    trees = trees_of(table)
    others = ~trees.is_root
    others[trees.sharing] = True
    has = np.flatnonzero(table.has_inventory[others].any(axis=0))
    return frozenset(table.resource_classes[column] for column in has)


def _each(traits: frozenset[str]) -> Sequence[frozenset[str]]:
    return [frozenset({trait}) for trait in sorted(traits)]
