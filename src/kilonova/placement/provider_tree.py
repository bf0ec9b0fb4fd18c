# SPDX-License-Identifier: Apache-2.0
"""Provider trees, and sharing providers that give resources to other trees through an aggregate.

An *anchor* is the root provider to which a candidate belongs. A provider gives resources to the anchor of its own tree.
A provider with the trait ``MISC_SHARES_VIA_AGGREGATE`` also gives resources to the root of each tree that has a member
in one of the provider's aggregates.
"""

import numpy as np

from kilonova.placement.provider_table import BoolArray, IntArray, ProviderTable
from kilonova.records import dataclass

SHARING_TRAIT = "MISC_SHARES_VIA_AGGREGATE"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderTrees:
    """The provider trees of a table.

    ``is_root``: (P,). ``root``: (P,) row of the tree's root. ``any_nested``: True if any tree has several providers.
    ``members``: (P,) all rows, sorted by tree, then by creation; the tree of root ``r`` is
    ``members[start[r] : start[r] + size[r]]``. ``start``, ``size``: (P,); size is 0 for rows that are not roots.
    ``sharing``: (S,) rows of sharing providers. ``reach``: (S, P) bool, the anchors of other trees that can use each
    sharing provider.
    ``lone``: (P,) roots without children that neither use a sharing provider nor share with another tree.
    ``all_lone``: True if every provider is lone.
    """

    is_root: BoolArray
    root: IntArray
    any_nested: bool
    members: IntArray
    start: IntArray
    size: IntArray
    sharing: IntArray
    reach: BoolArray
    lone: BoolArray
    all_lone: bool

    def of_root(self, root: int) -> IntArray:
        """Return the rows of one tree."""
        begin = int(self.start[root])
        return self.members[begin : begin + int(self.size[root])]

    def rows_in(self, roots: IntArray) -> IntArray:
        """Return the rows of several trees, each once, in the table's order."""
        wanted = np.zeros(len(self.is_root), dtype=np.bool_)
        wanted[roots] = True
        return np.flatnonzero(wanted[self.root] if self.any_nested else wanted)


def trees_of(table: ProviderTable) -> ProviderTrees:
    """Return the provider trees of a table. They are computed once per version of the table."""
    return table.remember("trees", lambda: _trees(table))


def _trees(table: ProviderTable) -> ProviderTrees:
    count = len(table)
    is_root = table.parent < 0
    members = np.argsort(table.root, kind="stable")
    size = np.bincount(table.root, minlength=count).astype(np.int64)
    start = np.zeros(count, dtype=np.int64)
    start[1:] = np.cumsum(size)[:-1]
    grouped = table.aggregate_bits.any(axis=0) if len(table.aggregate_bits) else np.zeros(count, dtype=np.bool_)
    sharing = np.flatnonzero(table.has_any_trait([SHARING_TRAIT]) & grouped)
    reach = np.zeros((len(sharing), count), dtype=np.bool_)
    for index, row in enumerate(sharing):
        peers = table.aggregate_bits[table.aggregate_bits[:, row]].any(axis=0)
        reach[index, table.root[peers]] = True
        reach[index, table.root[row]] = False
    lone = is_root & (size == 1) & ~reach.any(axis=0)
    lone[sharing[reach.any(axis=1)]] = False
    any_nested = bool((size > 1).any())
    return ProviderTrees(
        is_root=is_root,
        root=table.root,
        any_nested=any_nested,
        members=members,
        start=start,
        size=size,
        sharing=sharing,
        reach=reach,
        lone=lone,
        all_lone=bool(lone.all()),
    )
