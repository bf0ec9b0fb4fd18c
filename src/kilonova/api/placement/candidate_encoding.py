# SPDX-License-Identifier: Apache-2.0
"""JSON encoder of allocation candidates. For speed it formats table columns, without an object for each candidate.

It joins strings without JSON escapes, which names of resource classes and traits, uuids and suffixes do not need.
Encoding a thousand candidates takes about as long as the search for them.
"""

import threading
from collections.abc import Iterable, Sequence
from dataclasses import field
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from kilonova.api.microversion import Version
from kilonova.deadline import heeding
from kilonova.model.vocabulary import is_custom
from kilonova.placement.candidate_query import CandidateQuery
from kilonova.placement.candidates import Candidates
from kilonova.placement.provider_table import BoolArray, IntArray, ProviderTable
from kilonova.placement.tree_search import TreeCandidate
from kilonova.records import dataclass

_BY_PROVIDER = Version(1, 12)
_TRAITS = Version(1, 17)
_ALL_CLASSES = Version(1, 27)
_TREES = Version(1, 29)
_MAPPINGS = Version(1, 34)
#: Maximum number of cached provider summaries. A summary has about 1 kB.
_REMEMBERED = 10_000
_NO_USE = np.iinfo(np.int64).min


def encode_candidates(table: ProviderTable, query: CandidateQuery, found: Candidates, version: Version) -> bytes:
    """Return the body of `GET /allocation_candidates` at a microversion."""
    requests = list(chain(_single_requests(table, query, found, version), _tree_requests(table, found.trees, version)))
    if found.order is not None:
        requests = [requests[index] for index in found.order]
    if version < _TREES:
        summaries = [text.encode() for text in _summaries(table, query, found.summarised, version)]
    else:
        summaries = _remembered_summaries(table, query, found.summarised, version)
    opening = f'{{"allocation_requests":[{",".join(requests)}],"provider_summaries":{{'.encode()
    if not summaries:
        return opening + b"}}"
    # The body is joined only once, because each copy of such a long text takes much time.
    summaries[0] = opening + summaries[0]
    summaries[-1] += b"}}"
    return b",".join(summaries)


def _single_requests(table: ProviderTable, query: CandidateQuery, found: Candidates, version: Version) -> Iterable[str]:
    resources = ",".join(f'"{name}":{amount}' for name, amount in found.totals.items())
    uuids = [table.uuids[row] for row in found.single.tolist()]
    if version < _BY_PROVIDER:
        tail = f'"}},"resources":{{{resources}}}}}]}}'
        return [f'{{"allocations":[{{"resource_provider":{{"uuid":"{uuid}{tail}' for uuid in uuids]
    middle = f'":{{"resources":{{{resources}}}}}}}'
    if version < _MAPPINGS:
        return [f'{{"allocations":{{"{uuid}{middle}}}' for uuid in uuids]
    suffixes = [group.suffix for group in query.groups]
    if len(suffixes) == 1:
        opening = f'{middle},"mappings":{{"{suffixes[0]}":["'
        return [f'{{"allocations":{{"{uuid}{opening}{uuid}"]}}}}' for uuid in uuids]
    mappings = ",".join(f'"{suffix}":["%s"]' for suffix in suffixes)
    template = f'{{"allocations":{{"%s{middle},"mappings":{{{mappings}}}}}'
    return [template % ((uuid,) * (len(suffixes) + 1)) for uuid in uuids]


def _tree_requests(table: ProviderTable, found: Sequence[TreeCandidate], version: Version) -> Iterable[str]:
    names, uuids = table.resource_classes, table.uuids
    for candidate in heeding(found):
        by_provider: dict[int, list[str]] = {}
        for row, column, amount in candidate.amounts:
            by_provider.setdefault(row, []).append(f'"{names[column]}":{amount}')
        if version < _BY_PROVIDER:
            items = ",".join(
                f'{{"resource_provider":{{"uuid":"{uuids[row]}"}},"resources":{{{",".join(amounts)}}}}}'
                for row, amounts in by_provider.items()
            )
            yield f'{{"allocations":[{items}]}}'
            continue
        allocations = ",".join(
            f'"{uuids[row]}":{{"resources":{{{",".join(amounts)}}}}}' for row, amounts in by_provider.items()
        )
        if version < _MAPPINGS:
            yield f'{{"allocations":{{{allocations}}}}}'
            continue
        mappings = ",".join(
            f'"{suffix}":[{",".join(_quoted(uuids[row]) for row in rows)}]' for suffix, rows in candidate.mappings
        )
        yield f'{{"allocations":{{{allocations}}},"mappings":{{{mappings}}}}}'


def _remembered_summaries(table: ProviderTable, query: CandidateQuery, rows: IntArray, version: Version) -> list[bytes]:
    """Return the encoded summaries of the providers in ``rows``, for 1.29 and later.

    Summaries are cached, and encoded again only if the provider's usage has changed. No other field can change, since
    the cache belongs to one version of the table.
    """
    if not table.used.shape[1]:
        return [text.encode() for text in _summaries(table, query, rows, version)]
    known = table.remember("summaries", lambda: _Summaries.of(table))
    used = table.used[rows]
    with known.lock:
        found = known.texts[rows]
        changed = known.used[rows] != used
    if changed.any():
        stale = changed.any(axis=1).nonzero()[0]
        made = np.empty(len(stale), dtype=np.object_)
        made[:] = [text.encode() for text in _summaries(table, query, rows[stale], version)]
        found[stale] = made
        known.keep(rows[stale], used[stale], made)
    texts: list[bytes] = found.tolist()
    return texts


@dataclass(slots=True)
class _Summaries:
    """Cached provider summaries. ``texts``: the summaries. ``used``: the usage that each summary shows.

    ``used`` is ``_NO_USE`` for a provider without a cached summary. ``kept``: number of cached summaries.
    Shapes: ``texts`` (P,), ``used`` (P, R).
    """

    texts: NDArray[np.object_]
    used: IntArray
    kept: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    @classmethod
    def of(cls, table: ProviderTable) -> "_Summaries":
        return cls(np.empty(len(table), dtype=np.object_), np.full(table.used.shape, _NO_USE, dtype=np.int64))

    def keep(self, rows: IntArray, used: IntArray, made: NDArray[np.object_]) -> None:
        """Cache the encoded summaries ``made`` of the providers in ``rows``. If the cache is full, add no new ones."""
        with self.lock:
            new = self.used[rows, 0] == _NO_USE
            if self.kept + int(new.sum()) > _REMEMBERED:
                rows, used, made, new = rows[~new], used[~new], made[~new], new[~new]
            self.kept += int(new.sum())
            self.texts[rows], self.used[rows] = made, used


def _summaries(table: ProviderTable, query: CandidateQuery, rows: IntArray, version: Version) -> Iterable[str]:
    """Return the encoded summary ``"uuid":{…}`` of each provider in ``rows``.

    Providers with the same resource classes share a template, and providers with the same traits share their text.
    """
    if not len(rows):
        return []
    resources = _resource_pieces(table, query, rows, version)
    if version < _TRAITS:
        return [
            f'"{table.uuids[row]}":{{"resources":{{{piece}}}}}'
            for row, piece in zip(rows.tolist(), resources, strict=True)
        ]
    traits, set_of = _trait_pieces(table)
    trait_set = set_of[rows].tolist()
    if version < _TREES:
        return [
            f'"{table.uuids[row]}":{{"resources":{{{piece}}},"traits":[{traits[index]}]}}'
            for row, piece, index in zip(rows.tolist(), resources, trait_set, strict=True)
        ]
    uuids = table.uuids
    return [
        f'"{uuids[row]}":{{"resources":{{{piece}}},"traits":[{traits[index]}],'
        f'"parent_provider_uuid":{"null" if parent < 0 else _quoted(uuids[parent])},'
        f'"root_provider_uuid":"{uuids[root]}"}}'
        for row, piece, index, parent, root in zip(
            rows.tolist(), resources, trait_set, table.parent[rows].tolist(), table.root[rows].tolist(), strict=True
        )
    ]


def _quoted(text: str) -> str:
    return f'"{text}"'


def _resource_pieces(table: ProviderTable, query: CandidateQuery, rows: IntArray, version: Version) -> list[str]:
    has = table.has_inventory[rows]
    if version < _ALL_CLASSES:
        asked = {name for group in query.groups for name in group.resources}
        has = has & np.array([name in asked for name in table.resource_classes], dtype=np.bool_)
    figures = np.stack([np.maximum(table.capacity[rows], 0), table.used[rows]], axis=2)
    pieces = [""] * len(rows)
    for members in _alike(has):
        columns = np.flatnonzero(has[members[0]])
        template = ",".join(f'"{table.resource_classes[column]}":{{"capacity":%s,"used":%s}}' for column in columns)
        values = figures[members][:, columns].reshape(len(members), -1).tolist()
        for position, numbers in zip(members.tolist(), values, strict=True):
            pieces[position] = template % tuple(numbers)
    return pieces


def _trait_pieces(table: ProviderTable) -> tuple[list[str], IntArray]:
    """Return the encoded text of each distinct set of traits, and for each provider the index of its set.

    Shapes: indexes (P,).
    """
    return table.remember("trait pieces", lambda: _group_by_traits(table))


def _group_by_traits(table: ProviderTable) -> tuple[list[str], IntArray]:
    # standard traits sorted by name, followed by custom traits sorted by name
    ordered = sorted(table.trait_rows.items(), key=lambda item: (is_custom(item[0]), item[0]))
    set_of = np.zeros(len(table), dtype=np.int64)
    pieces = []
    for index, members in enumerate(_alike(table.trait_bits.T)):
        set_of[members] = index
        pieces.append(",".join(_quoted(name) for name, row in ordered if table.trait_bits[row, members[0]]))
    return pieces, set_of


def _alike(bits: BoolArray) -> list[IntArray]:
    """Group the rows of ``bits`` by their content. Shapes: (N, M) → arrays of row numbers, one for each group."""
    if not bits.size or (bits == bits[0]).all():
        return [np.arange(len(bits))]
    packed = np.ascontiguousarray(np.packbits(bits, axis=1))
    keys = packed.view(np.dtype((np.void, packed.shape[1]))).reshape(-1)
    order = np.argsort(keys, kind="stable")
    edges = np.flatnonzero(keys[order][1:] != keys[order][:-1]) + 1
    return np.split(order, edges)
