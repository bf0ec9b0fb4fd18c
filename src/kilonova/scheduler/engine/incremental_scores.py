# SPDX-License-Identifier: Apache-2.0
"""Incremental scores: the weighers' ratings of the remaining hosts, updated as servers of one request are placed.

The scores are bit-identical to the scores of a new rating of all hosts. A host's weighted score depends on the host's
own rating and on the smallest and largest rating of all hosts; only the values that have changed are recomputed.
"""

import math
from collections.abc import Sequence
from dataclasses import field

import numpy as np

from kilonova.errors import RuleFailed
from kilonova.model.request_spec import RequestSpec
from kilonova.records import dataclass
from kilonova.scheduler.decision import RankedHost
from kilonova.scheduler.engine.ranking import (
    Scale,
    Share,
    best,
    best_places,
    blaming,
    counts_nothing,
    ratings,
    scale,
    total,
    weigher_failed,
    weighted,
)
from kilonova.scheduler.host_table import ALL_ROWS, BoolArray, FloatArray, HostTable, IntArray, Rows
from kilonova.scheduler.rule import Weigher, rule_name

_NO_ROWS: IntArray = np.zeros(0, dtype=np.int64)
LISTED = 256
"""Number of the best hosts that are listed: more than a request of 100 servers usually takes."""


@dataclass(slots=True, kw_only=True)
class WeigherScores:
    """One weigher's ratings of the hosts (``raw``), and its contributions to the scores (``share``). Shapes: both (N,).

    ``smallest`` / ``largest``: the smallest and the largest rating among the remaining hosts.
    ``at_smallest`` / ``at_largest``: number of remaining hosts with the smallest rating / with the largest rating.
    ``scaled_for``: the (smallest, largest) ratings for which ``scale`` was computed.
    ``is_stale``: True if ratings have changed since ``smallest`` and ``largest`` were determined.
    ``is_flat``: True if all remaining hosts have the same rating; then the two counts are not kept up to date.
    """

    weigher: Weigher
    name: str
    factors: float | FloatArray
    raw: FloatArray
    only_where_placed: bool
    smallest: float = 0.0
    largest: float = 0.0
    at_smallest: int = 0
    at_largest: int = 0
    is_flat: bool = False
    is_stale: bool = False
    scaled_for: tuple[float, float] | None = None
    scale: Scale | None = None
    share: FloatArray | None = None

    def survey(self, alive: BoolArray) -> None:
        """Determine the smallest and the largest rating of the remaining hosts, and count the hosts that have them."""
        self.is_stale = False
        left = self.raw[alive]
        self.smallest, self.largest = float(left.min()), float(left.max())
        self.is_flat = self.smallest == self.largest
        self.at_smallest = int(np.count_nonzero(left == self.smallest))
        self.at_largest = int(np.count_nonzero(left == self.largest))

    def drop(self, index: int) -> None:
        """Remove a host from the counts of hosts with the smallest and with the largest rating."""
        if self.is_flat or self.is_stale:
            return
        old = float(self.raw[index])
        self.at_smallest -= old == self.smallest
        self.at_largest -= old == self.largest

    def rate(self, index: int, rating: float) -> None:
        """Set the new rating of one host."""
        if not math.isfinite(rating):
            raise ValueError("a weigher's ratings must be finite numbers")
        if self.is_flat:
            self.is_stale = rating != self.smallest
            self.is_flat = not self.is_stale
        if self.is_flat or self.is_stale:
            self.raw[index] = rating
            return
        self.drop(index)
        self.raw[index] = rating
        if rating < self.smallest:
            self.smallest, self.at_smallest = rating, 0
        if rating > self.largest:
            self.largest, self.at_largest = rating, 0
        self.at_smallest += rating == self.smallest
        self.at_largest += rating == self.largest

    def rescale_one(self, alive: BoolArray, index: int) -> bool:
        """Do the same as :meth:`rescale` for a single index; faster, because no arrays are created."""
        if self.is_flat:
            return False
        if self._needs_survey or (self.smallest, self.largest) != self.scaled_for:
            return self.rescale(alive, np.array([index]))
        if self.scale is not None and self.share is not None:
            factor = self.factors if isinstance(self.factors, float | int) else self.factors.item(index)
            self.share[index] = self.scale.applied_to_one(self.raw.item(index)) * factor
        return False

    @property
    def _needs_survey(self) -> bool:
        return self.is_stale or not (self.at_smallest and self.at_largest)

    def rate_anew(self, alive: BoolArray, factors: float | FloatArray, ratings_now: FloatArray) -> None:
        """Set the multipliers and ratings of all remaining hosts."""
        self.factors = factors
        if not isinstance(factors, float | int):
            self.factors = np.ones(len(alive))
            self.factors[alive] = factors
        self.raw[alive] = ratings_now
        self.is_stale, self.is_flat = True, False

    def mute(self) -> bool:
        """Remove the weigher's contribution to the scores, because its multiplier is 0. Return whether scores change.

        The weigher contributes nothing until :meth:`rate_anew` sets new ratings.
        """
        changed = self.share is not None
        self.scale = self.share = None
        self.is_stale, self.is_flat = True, False
        return changed

    def rescale(self, alive: BoolArray, indices: IntArray) -> bool:
        """Recompute ``share`` at ``indices``. Return True if ``share`` was recomputed for all hosts instead.

        All hosts are recomputed if the scale has changed, or if the weigher is not ``only_where_placed``.
        Raises: ValueError, for ratings or multipliers that are not finite numbers.
        """
        if self.is_flat:
            return False
        if self._needs_survey:
            self.survey(alive)
        self.scaled_for = (self.smallest, self.largest)
        ends = scale(self.smallest, self.largest, self.weigher.minimum, self.weigher.maximum)
        if ends != self.scale or not self.only_where_placed:
            self.scale = ends
            self.share = None if ends is None else weighted(ends.applied(self.raw), self.factors)
            return True
        if ends is not None and self.share is not None and len(indices):
            factors = self.factors if isinstance(self.factors, float | int) else self.factors[indices]
            self.share[indices] = weighted(ends.applied(self.raw[indices]), factors)
        return False


@dataclass(slots=True)
class IncrementalScores:
    """The ratings of all weighers, and the resulting scores. Shapes: ``rows``, ``alive``, ``scores`` (N,).

    ``rows``: the rated rows of the host table. ``alive``: mask of the rated rows whose hosts still pass all rules.
    ``shares``: each weigher's contribution to the scores, in weigher order.
    ``are_local``: True if placing a server changes the ratings of the chosen host only.
    ``ranked``: ranked hosts by index, made from the present scores; the caller adds them.
    ``listed``: number of the best hosts to list.
    """

    rows: IntArray
    alive: BoolArray
    names: tuple[str, ...]
    by_weigher: list[WeigherScores] = field(default_factory=list)
    shares: list[Share] = field(default_factory=list)
    scores: FloatArray = field(default_factory=lambda: np.zeros(0))
    ranked: dict[int, RankedHost] = field(default_factory=dict)
    listed: int = LISTED
    #: Ascending indices of the best scores, and the score and index such that every index that is not listed has a
    #: lower score, or the same score and is larger. None: not known.
    _listed: tuple[IntArray, float, int] | None = None

    @classmethod
    def of(
        cls,
        weighers: Sequence[Weigher],
        hosts: HostTable,
        spec: RequestSpec,
        alive: BoolArray,
        *,
        listed: int = LISTED,
    ) -> "IncrementalScores":
        """Rate all remaining hosts with all weighers."""
        rows = np.flatnonzero(alive)
        all_rows = np.ones(len(rows), dtype=np.bool_)
        made = cls(rows, all_rows, tuple(rule_name(weigher) for weigher in weighers), listed=listed)
        for weigher, name in zip(weighers, made.names, strict=True):
            with blaming(name):
                factors = weigher.factors(hosts, rows)
                local = bool(getattr(weigher, "only_where_placed", False))
                if not counts_nothing(factors):
                    of_weigher = WeigherScores(
                        weigher=weigher,
                        name=name,
                        factors=factors,
                        raw=rated(weigher, hosts, spec, rows),
                        only_where_placed=local,
                        is_stale=True,
                    )
                    of_weigher.rescale(all_rows, _NO_ROWS)
                    made.by_weigher.append(of_weigher)
                elif not local:  # a multiplier of 0 may be nonzero for a later server
                    made.by_weigher.append(
                        WeigherScores(
                            weigher=weigher,
                            name=name,
                            factors=factors,
                            raw=np.zeros(len(rows)),
                            only_where_placed=local,
                            is_stale=True,
                        )
                    )
        made._add_up()
        return made

    @property
    def are_local(self) -> bool:
        return all(of_weigher.only_where_placed for of_weigher in self.by_weigher)

    def best(self, count: int) -> IntArray:
        """Return the indices of the ``count`` highest scores, best first, equal scores by index. Shapes: → (K,)."""
        if self._listed is not None and len(self._listed[0]) >= count:
            listed, bound, last = self._listed
            scores = self.scores.take(listed)
            order = best(scores, count)
            worst = int(order[-1])
            if scores[worst] > bound or (scores[worst] == bound and listed[worst] <= last):
                return listed[order]
        self._listed = None
        if count < self.listed < len(self.scores):
            listed = best_places(self.scores, self.listed)
            scores = self.scores.take(listed)
            bound = float(scores.min())
            self._listed = listed, bound, int(listed[np.flatnonzero(scores == bound)[-1]])
        return best(self.scores, count)

    def _changed(self, index: int) -> None:
        """Forget what depends on the score of one host."""
        self.ranked.pop(index, None)
        if self._listed is not None:
            listed, bound, last = self._listed
            at = int(listed.searchsorted(index))
            if at == len(listed) or listed[at] != index:
                self._listed = None
            elif self.scores[index] == -np.inf:
                self._listed = np.delete(listed, at), bound, last

    def follow(
        self, hosts: HostTable, spec: RequestSpec, alive: BoolArray, changed: IntArray, part: HostTable | None
    ) -> None:
        """Update the ratings and scores after a change of the ``changed`` rows.

        Weighers with ``only_where_placed`` rate only these rows again; the other weighers rate all remaining rows.
        ``part``: the host table reduced to the changed rows that remain, or None if no changed row remains.
        """
        indices = np.searchsorted(self.rows, changed)
        self.alive[indices] = alive[changed]
        out, left = indices[~self.alive[indices]].tolist(), indices[self.alive[indices]]
        moved = False
        for of_weigher in self.by_weigher:
            try:
                if not of_weigher.only_where_placed:
                    rows = self.rows[self.alive]
                    factors = of_weigher.weigher.factors(hosts, rows)
                    if counts_nothing(factors):
                        moved |= of_weigher.mute()
                        continue
                    of_weigher.rate_anew(self.alive, factors, rated(of_weigher.weigher, hosts, spec, rows))
                else:
                    for index in out:
                        of_weigher.drop(index)
                    if part is not None:
                        now = rated(of_weigher.weigher, part, spec, ALL_ROWS)
                        for index, rating in zip(left.tolist(), now.tolist(), strict=True):
                            of_weigher.rate(index, rating)
                moved |= of_weigher.rescale(self.alive, left)
            except RuleFailed:
                raise
            except Exception as error:  # third-party code may raise any exception; blaming() would be too slow here
                raise weigher_failed(of_weigher.name) from error
        if moved:
            self._add_up()
            return
        self._listed = None
        self.ranked.clear()
        self.scores[out] = -np.inf
        if len(left):
            self.scores[left] = total([_at(share, left) for share in self.shares], len(left))

    def drop(self, row: int) -> None:
        """Remove the host of one row. Allowed only if :attr:`are_local` is True."""
        index = int(np.searchsorted(self.rows, row))
        self.alive[index] = False
        moved = False
        for of_weigher in self.by_weigher:
            of_weigher.drop(index)
            moved |= of_weigher.rescale_one(self.alive, index)
        self.scores[index] = -np.inf
        self._changed(index)
        if moved:
            self._add_up()

    def rate(self, row: int, ratings_now: Sequence[float]) -> None:
        """Set each weigher's rating of one row. Allowed only if :attr:`are_local` is True. Raises: RuleFailed."""
        index = int(np.searchsorted(self.rows, row))
        moved = False
        score = 0.0
        for of_weigher, rating in zip(self.by_weigher, ratings_now, strict=True):
            try:
                of_weigher.rate(index, rating)
                moved |= of_weigher.rescale_one(self.alive, index)
            except Exception as error:
                raise weigher_failed(of_weigher.name) from error
            if of_weigher.share is not None:
                score += of_weigher.share.item(index)
        self.scores[index] = score
        self._changed(index)
        if moved:
            self._add_up()

    def _add_up(self) -> None:
        self._listed = None
        self.ranked.clear()
        by_name = {of_weigher.name: of_weigher.share for of_weigher in self.by_weigher}
        self.shares = [Share(name, by_name.get(name)) for name in self.names]
        self.scores = total(self.shares, len(self.rows))
        self.scores[~self.alive] = -np.inf


def rated(weigher: Weigher, hosts: HostTable, spec: RequestSpec, rows: Rows) -> FloatArray:
    """Return a copy of a weigher's ratings, or zeros if the weigher has no preference.

    Shapes: → (N,). Raises: ValueError, if the number of ratings is wrong.
    """
    count = len(hosts) if isinstance(rows, slice) else len(rows)
    raw = ratings(weigher, hosts, spec, rows, count)
    return np.zeros(count) if raw is None else raw.copy()


def _at(share: Share, indices: IntArray) -> Share:
    return Share(share.weigher, None if share.values is None else share.values[indices])
