# SPDX-License-Identifier: Apache-2.0
"""Allocation candidates equal those of a plain reference implementation, on small random clouds."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import orjson
from hypothesis import given, settings
from hypothesis import strategies as st

from kilonova.api.microversion import Version
from kilonova.api.placement.candidate_encoding import encode_candidates
from kilonova.model.provider import Inventory
from kilonova.placement.candidate_query import CandidateQuery, Group
from kilonova.placement.candidates import Candidates, candidate_at, find_candidates, roots_with_candidates
from kilonova.placement.provider_table import ProviderRecord, ProviderTable, build_provider_table
from kilonova.placement.tree_search import TreeCandidate
from support.samples import sampled

SHARES = "MISC_SHARES_VIA_AGGREGATE"
CLASSES = ("VCPU", "DISK_GB", "CUSTOM_NIC")
TRAITS = ("CUSTOM_A", "CUSTOM_B", "HW_C")
AGGREGATES = ("g1", "g2", "g3")

#: Candidate: the (provider, class, amount) allocations, and the providers that serve each request group.
Plain = tuple[frozenset[tuple[str, str, int]], frozenset[tuple[str, frozenset[str]]]]

# --- reference implementation: one provider, one rule at a time ------------------------------------------------------


class Forest:
    def __init__(self, records: Sequence[ProviderRecord]) -> None:
        self.by_uuid = {record.uuid: record for record in records}

    def lineage(self, uuid: str) -> list[str]:
        """Return a provider, its parent, and so on up to the root."""
        line = [uuid]
        while (parent := self.by_uuid[line[-1]].parent) is not None:
            line.append(parent)
        return line

    def root(self, uuid: str) -> str:
        return self.lineage(uuid)[-1]

    def tree(self, root: str) -> list[str]:
        return [uuid for uuid in self.by_uuid if self.root(uuid) == root]

    def guests(self, root: str) -> list[str]:
        """Return the sharing providers of other trees that share with a member of this tree."""
        members = set().union(*(self.by_uuid[uuid].aggregates for uuid in self.tree(root)))
        return [
            uuid
            for uuid, record in self.by_uuid.items()
            if SHARES in record.traits and self.root(uuid) != root and record.aggregates & members
        ]

    def can_give(self, uuid: str, name: str, amount: int) -> bool:
        record = self.by_uuid[uuid]
        for inventory in record.inventories:
            if inventory.resource_class == name:
                fits = record.used.get(name, 0) + amount <= inventory.capacity
                return fits and inventory.min_unit <= amount <= inventory.max_unit and amount % inventory.step_size == 0
        return False

    def limit(self, uuid: str, name: str) -> int:
        record = self.by_uuid[uuid]
        inventory = next(item for item in record.inventories if item.resource_class == name)
        return min(inventory.capacity - record.used.get(name, 0), inventory.max_unit)


def in_aggregates(record: ProviderRecord, group: Group) -> bool:
    return all(record.aggregates & wanted for wanted in group.member_of)


def out_of_aggregates(record: ProviderRecord, group: Group) -> bool:
    return not record.aggregates & group.not_member_of


def meets(traits: frozenset[str], group: Group) -> bool:
    return all(traits & wanted for wanted in group.required)


def servings(forest: Forest, anchor: str, group: Group) -> Iterator[dict[str, str]]:
    """Yield every way to serve one group at an anchor: resource class → provider.

    The key is "" for a group without resources.
    """
    home, guests = forest.tree(anchor), forest.guests(anchor)
    tree = None
    if group.in_tree is not None:
        if group.in_tree not in forest.by_uuid:
            return
        tree = forest.root(group.in_tree)
    if group.suffix:
        for uuid in home + guests:
            record = forest.by_uuid[uuid]
            if (
                meets(record.traits, group)
                and not record.traits & group.forbidden
                and in_aggregates(record, group)
                and out_of_aggregates(record, group)
                and (tree is None or forest.root(uuid) == tree)
                and all(forest.can_give(uuid, name, amount) for name, amount in group.resources.items())
            ):
                yield dict.fromkeys(group.resources or ("",), uuid)
        return
    root = forest.by_uuid[anchor]
    options: list[list[str]] = []
    for name, amount in group.resources.items():
        able = []
        for uuid in home + guests:
            record = forest.by_uuid[uuid]
            at_home = uuid in home
            belongs = in_aggregates(record, group) or (at_home and in_aggregates(root, group))
            if (
                forest.can_give(uuid, name, amount)
                and not record.traits & group.forbidden
                and belongs
                and out_of_aggregates(record, group)
                and out_of_aggregates(root, group)
                and (tree is None or (at_home and anchor == tree))
            ):
                able.append(uuid)
        options.append(able)
    for chosen in product(*options):
        together = frozenset().union(*(forest.by_uuid[uuid].traits for uuid in chosen))
        if meets(together, group):
            yield dict(zip(group.resources, chosen, strict=True))


def same_subtree(forest: Forest, uuids: set[str]) -> bool:
    return any(all(top in forest.lineage(uuid) for uuid in uuids) for top in uuids)


def reference(records: Sequence[ProviderRecord], query: CandidateQuery) -> set[Plain]:
    return set().union(*reference_by_anchor(records, query).values())


def reference_by_anchor(records: Sequence[ProviderRecord], query: CandidateQuery) -> dict[str, set[Plain]]:
    """Return the candidates of each root provider."""
    forest = Forest(records)
    nested = any(record.parent is not None for record in records)
    found: dict[str, set[Plain]] = {}
    for anchor, record in forest.by_uuid.items():
        if (
            record.parent is not None
            or not query.root_required <= record.traits
            or query.root_forbidden & record.traits
        ):
            continue
        mine = found[anchor] = set()
        for served in product(*(list(servings(forest, anchor, group)) for group in query.groups)):
            by_suffix = {
                group.suffix: set(serving.values()) for group, serving in zip(query.groups, served, strict=True)
            }
            granular = [uuids for suffix, uuids in by_suffix.items() if suffix]
            if query.isolate and len(set().union(*granular)) != len(granular):
                continue
            if not all(
                same_subtree(forest, set().union(*(by_suffix[suffix] for suffix in suffixes)))
                for suffixes in query.same_subtrees
            ):
                continue
            amounts: Counter[tuple[str, str]] = Counter()
            for group, serving in zip(query.groups, served, strict=True):
                for name, amount in group.resources.items():
                    amounts[serving[name], name] += amount
            if any(amount > forest.limit(*cell) for cell, amount in amounts.items()):
                continue
            users = {uuid for uuid, _ in amounts}
            if nested and not query.nested and len({forest.root(uuid) for uuid in users}) < len(users):
                continue
            mine.add(
                (
                    frozenset((uuid, name, amount) for (uuid, name), amount in amounts.items()),
                    frozenset((suffix, frozenset(uuids)) for suffix, uuids in by_suffix.items()),
                )
            )
    return found


# --- random clouds and queries ---------------------------------------------------------------------------------------


def rarely(usual: Any, *others: Any) -> st.SearchStrategy[Any]:
    """Return a strategy that mostly draws ``usual``, so that most queries have results."""
    return st.sampled_from((usual,) * (4 * len(others)) + others)


@st.composite
def inventories(draw: st.DrawFn) -> tuple[Inventory, ...]:
    names = draw(st.lists(st.sampled_from(CLASSES), unique=True, min_size=draw(rarely(1, 0)), max_size=2))
    return tuple(
        Inventory(
            name,
            total=draw(st.integers(2, 6)),
            reserved=draw(rarely(0, 1)),
            min_unit=draw(rarely(1, 2)),
            max_unit=draw(rarely(9, 1, 2)),
            step_size=draw(rarely(1, 2)),
            allocation_ratio=draw(rarely(1.0, 1.5, 0.5)),
        )
        for name in names
    )


@st.composite
def clouds(draw: st.DrawFn, *, nested: bool = True) -> list[ProviderRecord]:
    records: list[ProviderRecord] = []
    for index in range(draw(st.integers(2, 8))):
        own = draw(inventories())
        used = {item.resource_class: draw(st.integers(0, 3)) for item in own if draw(rarely(False, True))}
        above = [record.uuid for record in records] if nested else []
        parent = draw(st.sampled_from([None, *above, *above[:2], *above[:2]]))
        traits = draw(st.frozensets(st.sampled_from(TRAITS), max_size=2))
        aggregates = draw(st.frozensets(st.sampled_from(AGGREGATES), max_size=2))
        if draw(rarely(False, True, True)):
            traits, aggregates = traits | {SHARES}, aggregates | {AGGREGATES[0]}
        records.append(ProviderRecord(f"p{index}", parent, own, used, traits, aggregates))
    return records


@st.composite
def groups(draw: st.DrawFn, theme: str, suffix: str, uuids: Sequence[str], *, empty: bool = False) -> Group:
    """Draw a group whose conditions concern one theme, or a few conditions of each."""
    some = st.frozensets(st.sampled_from(TRAITS), min_size=1, max_size=2)
    members = st.frozensets(rarely(AGGREGATES[0], *AGGREGATES[1:], "nobody"), min_size=1, max_size=2)
    size = 1 if suffix else draw(st.sampled_from((1, 2, 2)))
    amounts = st.dictionaries(st.sampled_from(CLASSES), rarely(1, 2, 3), min_size=size, max_size=size)
    none: frozenset[str] = frozenset()
    group = Group(suffix, {} if empty else draw(amounts))
    if theme == "traits" or draw(rarely(False, True)):
        forbidden = draw(rarely(none, frozenset({TRAITS[0]}), frozenset({SHARES})))
        group = replace(group, required=tuple(draw(st.lists(some, max_size=2))), forbidden=forbidden)
    if theme == "aggregates" or draw(rarely(False, True)):
        outside = draw(st.sampled_from((none, none, frozenset({AGGREGATES[1]}), frozenset({AGGREGATES[2], "nobody"}))))
        group = replace(group, member_of=tuple(draw(st.lists(members, max_size=2))), not_member_of=outside)
    if draw(rarely(False, True)):
        group = replace(group, in_tree=draw(st.sampled_from((*uuids, "nowhere"))))
    return group


@st.composite
def queries(draw: st.DrawFn, uuids: Sequence[str]) -> CandidateQuery:
    theme = draw(st.sampled_from(("traits", "aggregates", "groups", "nothing")))
    suffixes: tuple[str, ...] = ("",)
    if theme == "groups" or draw(rarely(False, True)):
        suffixes = draw(st.sampled_from((("", "1"), ("1",), ("1", "2"), ("", "_A", "_B"), ("1", "2", "3"))))
    named = [suffix for suffix in suffixes if suffix]
    subtrees: tuple[frozenset[str], ...] = ()
    if named and draw(st.booleans()):
        subtrees = (draw(st.frozensets(st.sampled_from(named), min_size=1)),)
    tied = frozenset().union(*subtrees)
    # A group without resources must be tied to another one by same_subtree, and at least one group has resources.
    empty = draw(st.frozensets(st.sampled_from(sorted(tied)))) if tied and len(suffixes) > 1 else frozenset()
    if len(empty) == len(suffixes):
        empty = frozenset()
    none: frozenset[str] = frozenset()
    return CandidateQuery(
        tuple(draw(groups(theme, suffix, uuids, empty=suffix in empty)) for suffix in suffixes),
        isolate=draw(rarely(False, True, True)),
        same_subtrees=subtrees,
        root_required=draw(rarely(none, frozenset({TRAITS[0]}))),
        root_forbidden=draw(rarely(none, frozenset({TRAITS[1]}))),
        nested=draw(rarely(True, False)),
        breadth_first=draw(st.booleans()),
    )


@st.composite
def questions(draw: st.DrawFn) -> tuple[list[ProviderRecord], CandidateQuery]:
    records = draw(clouds(nested=draw(rarely(True, False))))
    return records, draw(queries([record.uuid for record in records]))


# --- parsing of responses --------------------------------------------------------------------------------------------


def plain(table: ProviderTable, query: CandidateQuery, found: Candidates) -> list[Plain]:
    served = [
        (
            frozenset((table.uuids[row], name, amount) for name, amount in found.totals.items()),
            frozenset((group.suffix, frozenset({table.uuids[row]})) for group in query.groups),
        )
        for row in found.single
    ]
    return [*served, *(plain_of_tree(table, each) for each in found.trees)]


def plain_of_tree(table: ProviderTable, candidate: TreeCandidate) -> Plain:
    return (
        frozenset(
            (table.uuids[row], table.resource_classes[column], amount) for row, column, amount in candidate.amounts
        ),
        frozenset((suffix, frozenset(table.uuids[row] for row in rows)) for suffix, rows in candidate.mappings),
    )


def plain_of_json(body: Mapping[str, Any]) -> list[Plain]:
    return [
        (
            frozenset(
                (uuid, name, amount)
                for uuid, entry in request["allocations"].items()
                for name, amount in entry["resources"].items()
            ),
            frozenset((suffix, frozenset(uuids)) for suffix, uuids in request["mappings"].items()),
        )
        for request in body["allocation_requests"]
    ]


# --- properties ------------------------------------------------------------------------------------------------------


@settings(max_examples=sampled(600, sample=120), deadline=None)
@given(questions())
def test_candidates_equal_the_reference_and_none_comes_twice(
    question: tuple[list[ProviderRecord], CandidateQuery],
) -> None:
    records, query = question
    table = build_provider_table(records)
    found = plain(table, query, find_candidates(table, query))
    assert len(found) == len(set(found))
    assert set(found) == reference(records, query)


@settings(max_examples=sampled(200, sample=50), deadline=None)
@given(questions(), st.integers(1, 6), st.sampled_from((-1, 2)), st.integers(0, 3))
def test_a_limit_gives_that_many_of_them_in_any_order(
    question: tuple[list[ProviderRecord], CandidateQuery], limit: int, maximum: int, seed: int
) -> None:
    records, query = question
    table = build_provider_table(records)
    expected = reference(records, query)
    query = replace(query, limit=limit, maximum=maximum)
    wanted = min(limit, len(expected)) if maximum < 0 else min(limit, maximum, len(expected))
    for rng in (None, np.random.default_rng(seed)):
        candidates = find_candidates(table, query, rng)
        found = plain(table, query, candidates)
        assert len(candidates) == len(found) == len(set(found)) == wanted
        assert set(found) <= expected
        if candidates.order is not None:
            assert sorted(candidates.order) == list(range(wanted))


@settings(max_examples=sampled(150, sample=40), deadline=None)
@given(questions())
def test_the_encoded_answer_says_the_same_and_describes_the_trees_involved(
    question: tuple[list[ProviderRecord], CandidateQuery],
) -> None:
    records, query = question
    query = replace(query, nested=True)
    table = build_provider_table(records)
    body = orjson.loads(encode_candidates(table, query, find_candidates(table, query), Version(1, 39)))
    expected = reference(records, query)
    assert set(plain_of_json(body)) == expected
    forest = Forest(records)
    roots = {forest.root(uuid) for amounts, _ in expected for uuid, _, _ in amounts}
    assert body["provider_summaries"] == {
        uuid: {
            "resources": {
                item.resource_class: {
                    "capacity": item.capacity,
                    "used": record.used.get(item.resource_class, 0),
                }
                for item in record.inventories
            },
            "traits": sorted(record.traits, key=lambda name: (name.startswith("CUSTOM_"), name)),
            "parent_provider_uuid": record.parent,
            "root_provider_uuid": forest.root(uuid),
        }
        for uuid, record in forest.by_uuid.items()
        if forest.root(uuid) in roots
    }


@settings(max_examples=sampled(150, sample=40), deadline=None)
@given(questions())
def test_each_root_is_told_apart_by_whether_it_has_a_candidate(
    asked: tuple[list[ProviderRecord], CandidateQuery],
) -> None:
    records, query = asked[0], replace(asked[1], nested=True)
    table = build_provider_table(records)
    expected = reference_by_anchor(records, query)
    able = roots_with_candidates(table, query, np.ones(len(table), dtype=np.bool_))
    assert {table.uuids[row] for row in np.flatnonzero(able)} == {uuid for uuid, found in expected.items() if found}
    for row in range(len(table)):
        candidate = candidate_at(table, query, row)
        assert (candidate is not None) == able[row]
        if candidate is not None:
            assert plain_of_tree(table, candidate) in expected[table.uuids[row]]
    some = np.arange(len(table)) % 2 == 0
    assert (roots_with_candidates(table, query, some) == (able & some)).all()
