# SPDX-License-Identifier: Apache-2.0
"""The query for allocation candidates: request groups and the conditions that connect them."""

from collections.abc import Mapping, Sequence
from dataclasses import field

from kilonova.records import dataclass


@dataclass(frozen=True, slots=True)
class Group:
    """One request group. ``required``, ``member_of``: at least one trait or aggregate of each inner set must match.

    ``in_tree``: uuid of a provider; all providers of the group must be in the tree of this provider.
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
    """A query for allocation candidates.

    ``limit``: the largest number of candidates to return. ``maximum``: the largest number to generate (-1: unlimited).
    ``isolate``: groups with a suffix must use different providers.
    ``same_subtrees``: sets of group suffixes. The groups of one set must use the same provider, or one of their
    providers must be an ancestor of all the others.
    ``root_required``, ``root_forbidden``: traits that the root provider must have, and must not have.
    ``nested``: whether a candidate may contain several providers of one tree (microversion 1.29).
    ``breadth_first``: return one candidate of each root provider before the second candidate of any root provider.
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
