# SPDX-License-Identifier: Apache-2.0
"""Small provider trees, and the candidates that a query finds in them."""

from collections.abc import Mapping
from typing import Any

from kilonova.model.provider import Inventory
from kilonova.placement.candidate_query import CandidateQuery, Group
from kilonova.placement.candidates import find_candidates
from kilonova.placement.provider_table import ProviderRecord, build_provider_table

SHARES = "MISC_SHARES_VIA_AGGREGATE"
Found = set[frozenset[tuple[str, str, int]]]


def provider(
    uuid: str,
    parent: str | None = None,
    *,
    traits: str = "",
    aggregates: str = "",
    used: Mapping[str, int] | None = None,
    **totals: int,
) -> ProviderRecord:
    inventories = tuple(Inventory(name, total) for name, total in totals.items())
    return ProviderRecord(
        uuid, parent, inventories, used or {}, frozenset(traits.split()), frozenset(aggregates.split())
    )


def group(suffix: str = "", **conditions: Any) -> Group:
    resources = {name: amount for name, amount in conditions.items() if name.isupper()}
    rest = {name: value for name, value in conditions.items() if not name.isupper()}
    return Group(suffix, resources, **rest)


def find(*records: ProviderRecord, groups: tuple[Group, ...], **query: Any) -> Found:
    table = build_provider_table(records)
    found = find_candidates(table, CandidateQuery(groups, **query))
    names, uuids = table.resource_classes, table.uuids
    lone = {frozenset((uuids[row], name, amount) for name, amount in found.totals.items()) for row in found.single}
    return lone | {frozenset((uuids[row], names[column], n) for row, column, n in each.amounts) for each in found.trees}


def of(**uses: Mapping[str, int]) -> frozenset[tuple[str, str, int]]:
    return frozenset((uuid, name, amount) for uuid, amounts in uses.items() for name, amount in amounts.items())
