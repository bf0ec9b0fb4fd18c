# SPDX-License-Identifier: Apache-2.0
"""What is asked of the providers: groups of resources, and how they belong together."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


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
