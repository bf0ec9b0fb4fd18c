# SPDX-License-Identifier: Apache-2.0
"""The query for allocation candidates: request groups and the conditions that connect them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Group:
    """One request group. ``required``, ``member_of``: of each inner set, at least one trait or aggregate must match.

    ``in_tree``: uuid of a provider; all providers of the group must be in its tree.
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
    ``same_subtrees``: sets of suffixes; the providers of the groups in a set must all be in the subtree of one of them.
    ``root_required``, ``root_forbidden``: traits of the anchor.
    ``nested``: whether a candidate may contain several providers of one tree (microversion 1.29).
    ``breadth_first``: return one candidate of each anchor before the second candidate of any anchor.
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
