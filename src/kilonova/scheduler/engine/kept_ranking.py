# SPDX-License-Identifier: Apache-2.0
"""The kept ranking of one request shape: a short list of the best hosts, with a bound for the scores of all others.

::

    changed rows ──▶ the ends of each weigher's scale ──▶ rise of the bound ──┐
                 └─▶ the short list ──▶ scores of the short list ─────────────┴▶ enough above the bound? ──▶ best
                                                                                    └ no: score all hosts, new list

A score depends on the host's own ratings and on the ends of each weigher's scale. When an end moves, every score
changes, but by no more than a number that follows from the two scales. The scores of the hosts outside the short list
stay below the bound plus these numbers, so they need not be known.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from kilonova.scheduler.decision import SURVIVED, RankedHost
from kilonova.scheduler.engine.engine import Engine
from kilonova.scheduler.engine.kept_ratings import NotKeepable, Ratings, SharedRatings
from kilonova.scheduler.engine.ranking import best, best_places
from kilonova.scheduler.engine.scale_part import ROUNDING, Part
from kilonova.scheduler.host_table import FloatArray, HostTable, IntArray
from kilonova.scheduler.rule import rule_name

LISTED = 512
"""Number of the best hosts that a ranking lists. Changed hosts are added, until the list is a quarter longer."""
_FEW = 4
#: Number of hosts that are scored at once, so that their ratings fit into the cache of a processor.
_TOGETHER = 8_192
Numbers = NDArray[np.uint8]


class KeptRanking:
    """The ranking of the hosts that passed all rules.

    ``ratings``: the ratings of each weigher that counts, in the order of the weighers. ``shared``: those of all shapes.
    ``removed_by``: the rule that removes each host, or ``SURVIVED``; at least two hosts pass all rules. Shapes: (H,).
    ``count``: number of the best hosts to list. ``needed``: number of hosts that the first decision ranks.
    Raises: NotKeepable, if a score is not finite.
    """

    def __init__(
        self,
        engine: Engine,
        ratings: Sequence[Ratings],
        shared: SharedRatings,
        removed_by: Numbers,
        count: int,
        needed: int,
    ) -> None:
        self._engine = engine
        self._no_weights = {rule_name(weigher): 0.0 for weigher in engine.weighers}
        self._count = count
        self._parts = [Part(each, shared.most) for each in ratings if not each.is_silent]
        #: The ratings of all parts, if all shapes share them. Shapes: (W, H).
        self._raw = shared.raw if all(each.is_shared for each in ratings if not each.is_silent) else None
        #: The parts with a multiplier for each host.
        self._by_host = [
            (place, factors)
            for place, part in enumerate(self._parts)
            if isinstance(factors := part.ratings.factors, np.ndarray)
        ]
        self._limits = _limits(self._parts)
        #: Score and row: each host that is not listed has a lower score, or the same score and a larger row.
        self._bound = -np.inf, -1
        #: The ends of the scales, and the multipliers. Shapes: (W, 1).
        self._low = self._span = self._factors = np.zeros((0, 1))
        self._rescale(removed_by)
        #: The listed rows, in ascending order.
        self._rows = self._list(removed_by, needed)
        #: The hosts of the last ranking by row, with their contributions: most of them are in the next ranking, too.
        self._last: dict[int, tuple[list[float], RankedHost]] = {}
        #: The listed rows, their contributions and scores; None if they must be computed. Shapes: (N,), (W, N), (N,).
        self._scored: tuple[IntArray, FloatArray, FloatArray] | None = None
        #: The remaining rows that have changed since, all of them listed.
        self._stale: list[int] = []

    def follow(self, rows: IntArray, before: Numbers, now: Numbers, *, is_rated: bool) -> None:
        """Take changed rows into account.

        ``before``, ``now``: the rules that removed these rows before, and that remove them now. ``is_rated``: whether
        even ratings that do not depend on rows may have changed. Shapes: (N,).
        """
        stays, was = now == SURVIVED, before == SURVIVED
        for part in self._parts:
            part.follow(rows, was, stays, is_rated=is_rated)
        if len(rows) <= _FEW:
            for row, is_left in zip(rows.tolist(), stays.tolist(), strict=True):
                self._set(row, is_left)
                if is_left:
                    self._stale.append(row)
            return
        self._scored = None
        every = np.concatenate([self._rows, rows[stays]])
        every.sort()
        is_new = np.ones(len(every), dtype=np.bool_)
        np.not_equal(every[1:], every[:-1], out=is_new[1:])
        if (gone := rows[was & ~stays]).size:
            is_new &= ~np.isin(every, gone)
        self._rows = every[is_new]

    def _set(self, row: int, is_left: bool) -> None:
        """Add a row to the list, or remove it."""
        rows = self._rows
        at = int(rows.searchsorted(row))
        is_listed = at < len(rows) and rows[at] == row
        if is_left and not is_listed:
            self._rows = np.concatenate([rows[:at], [row], rows[at:]])
        elif is_listed and not is_left:
            self._rows = np.concatenate([rows[:at], rows[at + 1 :]])

    def ranked(
        self, hosts: HostTable, left: int, limit: int, rng: np.random.Generator | None, removed_by: Numbers
    ) -> tuple[RankedHost, ...]:
        """Return the best ``limit`` hosts. ``left``: number of remaining hosts. Raises: NotKeepable, RuleFailed."""
        self._rescale(removed_by)
        needed = min(max(limit, self._engine.host_subset_size), left)
        rows, shares, scores = self._listed_scores()
        order = best(scores, min(needed, len(rows)))
        is_listed = self._is_enough(rows, scores, order, needed)
        if not is_listed:
            self._rows = self._list(removed_by, needed)
            rows, shares, scores = self._listed_scores()
        elif 4 * len(rows) > 5 * max(self._count, 2 * needed):
            score, row = self._bound
            self._rows = rows[(scores > score) | ((scores == score) & (rows <= row))]
        if not is_listed or rng is not None or needed != min(limit, left):
            order = self._engine.order(scores, left, limit, rng)
        return self._hosts(hosts, rows[order].tolist(), scores[order].tolist(), shares.T.take(order, axis=0).tolist())

    def _rescale(self, removed_by: Numbers) -> None:
        """Compute the scales again, and raise the bound by what their changes can add to a score at most."""
        before = [part.scale for part in self._parts]
        rise = 0.0
        seen, is_bounded = removed_by.data, self._bound[0] > -np.inf
        for part in self._parts:
            rise += part.rescale(seen, lambda: np.flatnonzero(removed_by == SURVIVED), is_bounded=is_bounded)
        if rise:
            largest = sum(part.ratings.largest_factor for part in self._parts)
            self._bound = self._bound[0] + rise + ROUNDING * largest, -1
        scales = [part.scale for part in self._parts]
        if scales != before or len(self._low) != len(scales):
            columns = [(0.0, 1.0, 0.0) if part.scale is None else part.linear for part in self._parts]
            values = np.array(columns, dtype=np.float64).reshape(len(columns), 3)
            self._low, self._span, self._factors = values[:, :1], values[:, 1:2], values[:, 2:]
            self._scored = None

    def _listed_scores(self) -> tuple[IntArray, FloatArray, FloatArray]:
        """Return the listed rows, their contributions and scores. Shapes: → (N,), (W, N), (N,)."""
        scored = self._scored
        if scored is None or scored[0] is not self._rows or len(self._stale) > _FEW:
            shares = self._shares(self._rows)
            scored = self._scored = self._rows, shares, _sums(shares)
        elif self._stale:
            rows, shares, scores = scored
            changed = np.array(self._stale)
            places = rows.searchsorted(changed)
            shares[:, places] = now = self._shares(changed)
            scores[places] = _sums(now)
        self._stale = []
        return scored

    def _shares(self, rows: IntArray) -> FloatArray:
        """Return the contribution of each part to the scores of ``rows``. Shapes: → (W, N)."""
        if self._raw is not None:
            shares = self._raw.take(rows, axis=1)
        else:
            shares = np.array([part.ratings.raw.take(rows) for part in self._parts])
        least, most = self._limits
        if least is not None:
            np.maximum(shares, least, out=shares)
        if most is not None:
            np.minimum(shares, most, out=shares)
        np.subtract(shares, self._low, out=shares)
        np.divide(shares, self._span, out=shares)
        np.multiply(shares, self._factors, out=shares)
        for place, factors in self._by_host:
            np.multiply(shares[place], factors.take(rows), out=shares[place])
        return shares

    def _is_enough(self, rows: IntArray, scores: FloatArray, order: IntArray, needed: int) -> bool:
        if len(order) < needed:
            return False
        worst = int(order[-1])
        score, row = self._bound
        return bool(scores[worst] > score or (scores[worst] == score and rows[worst] <= row))

    def _list(self, removed_by: Numbers, needed: int) -> IntArray:
        """Score all remaining hosts, return the best of them, and set the bound. Raises: NotKeepable."""
        rows = np.flatnonzero(removed_by == SURVIVED)
        scores = np.empty(len(rows))
        for start in range(0, len(rows), _TOGETHER):
            some = slice(start, start + _TOGETHER)
            scores[some] = _sums(self._shares(rows[some]))
        if not np.isfinite(scores).all():
            raise NotKeepable
        count = max(self._count, 2 * needed)
        places = best_places(scores, count)
        self._bound = -np.inf, -1
        if len(rows) > count:
            worst = float(scores[places].min())
            self._bound = worst, int(rows[places[np.flatnonzero(scores[places] == worst)[-1]]])
        return rows[places]

    def _hosts(
        self, hosts: HostTable, rows: list[int], scores: list[float], shares: list[list[float]]
    ) -> tuple[RankedHost, ...]:
        loud = [place for place, part in enumerate(self._parts) if part.scale is not None]
        names = [self._parts[place].ratings.name for place in loud]
        before, self._last = self._last, {}
        ranked: list[RankedHost] = []
        for row, score, every in zip(rows, scores, shares, strict=True):
            own = [every[place] for place in loud]
            known = before.get(row)
            if known is None or known[0] != own or known[1].score != score:
                weights = self._no_weights | dict(zip(names, own, strict=True))
                known = own, RankedHost(row, hosts.hosts[row], hosts.nodes[row], hosts.uuids[row], score, weights)
            self._last[row] = known
            ranked.append(known[1])
        return tuple(ranked)

    @property
    def size(self) -> int:
        """The approximate number of bytes in memory."""
        return 3_000 + (len(self._parts) + 3) * self._rows.nbytes + 8_000 * sum(part.own_ends for part in self._parts)


def _sums(shares: FloatArray) -> FloatArray:
    """Sum the contributions in the order of the weighers, as the whole engine does. Shapes: (W, N) → (N,)."""
    if shares.shape[1] == 1:  # faster without arrays
        score = 0.0
        for (share,) in shares.tolist():
            score += share
        return np.array([score])
    scores = np.zeros(shares.shape[1])
    for share in shares:
        np.add(scores, share, out=scores)
    return scores


def _limits(parts: Sequence[Part]) -> tuple[FloatArray | None, FloatArray | None]:
    """Return the fixed ends of the parts' ratings, infinite if there are none. Shapes: (W, 1), or None for all."""
    least = [-np.inf if (end := part.ratings.weigher.minimum) is None else end for part in parts]
    most = [np.inf if (end := part.ratings.weigher.maximum) is None else end for part in parts]
    return (
        np.array(least)[:, np.newaxis] if max(least, default=-np.inf) > -np.inf else None,
        np.array(most)[:, np.newaxis] if min(most, default=np.inf) < np.inf else None,
    )
