# SPDX-License-Identifier: Apache-2.0
"""Kept ratings: what each weigher says about every host. Only the hosts that changed are rated again.

Most ratings do not depend on the request, so all requests share one array of them.
"""

from collections.abc import Sequence

import numpy as np

from kilonova.model.request_spec import RequestSpec
from kilonova.records import dataclass
from kilonova.scheduler.depends_on import DependsOn, dependence_of
from kilonova.scheduler.engine.ranking import blaming, counts_nothing, ratings
from kilonova.scheduler.engine.shared_end import SharedEnd
from kilonova.scheduler.host_table import ALL_ROWS, FloatArray, HostTable, IntArray
from kilonova.scheduler.rule import Weigher, rule_name

#: Larger ratings and multipliers are not kept: the differences and sums of smaller ones are finite.
_LARGEST = 1e100
_FEW = 16
#: Number of ratings to keep at each end.
MOST_AT_ENDS = 64


class NotKeepable(Exception):
    """The results of a rule cannot be kept."""


@dataclass(slots=True)
class Ratings:
    """One weigher's ratings of all hosts. Shapes: ``raw`` (H,); ``factors`` () or (H,).

    ``least``, ``most``: the smallest and the largest multiplier. ``follows``: the ratings depend on the hosts' rows.
    ``is_silent``: the weigher has no preference, and ``raw`` is not used.
    ``is_shared``: all shapes share the ratings. ``high``, ``low``: their ends; None if the weigher fixes the end.
    """

    weigher: Weigher
    name: str
    factors: float | FloatArray
    least: float
    most: float
    raw: FloatArray
    follows: bool
    is_silent: bool
    is_shared: bool = False
    high: SharedEnd | None = None
    low: SharedEnd | None = None

    @classmethod
    def of(cls, weigher: Weigher, hosts: HostTable, spec: RequestSpec) -> "Ratings | None":
        """Rate all hosts, or return None if the multiplier is 0 for all of them. Raises: NotKeepable, RuleFailed."""
        name = rule_name(weigher)
        with blaming(name):
            factors = weigher.factors(hosts, ALL_ROWS)
            if counts_nothing(factors):
                return None
            ends = np.asarray(factors, dtype=np.float64)
            if ends.shape not in {(), (len(hosts),)}:
                raise ValueError(f"{ends.shape} multipliers for {len(hosts)} hosts")
            raw = ratings(weigher, hosts, spec, ALL_ROWS, len(hosts))
        follows = DependsOn.ROWS in (dependence_of(weigher) or DependsOn.SHARED)
        least, most = float(ends.min(initial=np.inf)), float(ends.max(initial=-np.inf))
        _require_finite(ends.reshape(-1))
        kept = np.zeros(0) if raw is None else raw.copy()
        _require_finite(kept)
        return cls(weigher, name, factors, least, most, kept, follows, raw is None)

    def share(self, raw: FloatArray, most: int) -> None:
        """Share the ratings between all shapes, in the array ``raw``. ``most``: number to keep at each end."""
        self.raw, self.is_shared = raw, True
        self.high = SharedEnd(raw, 1, most) if self.weigher.maximum is None else None
        self.low = SharedEnd(raw, -1, most) if self.weigher.minimum is None else None

    @property
    def largest_factor(self) -> float:
        """The largest absolute value of the multipliers."""
        return max(abs(self.least), abs(self.most))

    def follow(self, hosts: HostTable, spec: RequestSpec, rows: IntArray) -> list[float] | None:
        """Rate changed rows again. Return their ratings, None if they are silent. Raises: NotKeepable, RuleFailed."""
        with blaming(self.name):
            now = ratings(self.weigher, hosts, spec, rows, len(rows))
        if (now is None) != self.is_silent:
            raise NotKeepable  # the weigher rates all hosts in another way
        if now is None:
            return None
        values: list[float] = now.tolist()
        if len(values) > _FEW:
            _require_finite(now)
            self.raw[rows] = now
        else:  # faster without arrays
            for row, value in zip(rows.tolist(), values, strict=True):
                if not -_LARGEST < value < _LARGEST:
                    raise NotKeepable
                self.raw[row] = value
        return values


def has_same_factors(weigher: Weigher, known: Ratings | None, hosts: HostTable) -> bool:
    """Tell whether a weigher has the multipliers of its ratings. None: 0 for all hosts. Raises: RuleFailed."""
    with blaming(rule_name(weigher)):
        factors = weigher.factors(hosts, ALL_ROWS)
    if known is None:
        return counts_nothing(factors)
    return np.shape(factors) == np.shape(known.factors) and bool(np.all(factors == known.factors))


def _require_finite(values: FloatArray) -> None:
    if not (np.abs(values) < _LARGEST).all():
        raise NotKeepable


class SharedRatings:
    """The ratings that do not depend on the request: for each weigher, its ratings or None.

    ``raw``: the ratings of all weighers that have a preference, in their order. Shapes: (W, H).
    ``number``: the number of the first change that the ratings do not include.
    ``most``: number of ratings to keep at each end.
    """

    def __init__(
        self, weighers: Sequence[Weigher], hosts: HostTable, spec: RequestSpec, number: int, most: int
    ) -> None:
        self.number, self.most = number, most
        self._weighers = weighers
        self.by_weigher = [None if _is_of_request(each) else Ratings.of(each, hosts, spec) for each in weighers]
        #: The weighers whose ratings depend on the request, with their places.
        self.of_request = [(place, each) for place, each in enumerate(weighers) if _is_of_request(each)]
        loud = [each for each in self.by_weigher if each is not None and not each.is_silent]
        self.raw = np.array([each.raw for each in loud]).reshape(len(loud), len(hosts))
        for each, raw in zip(loud, self.raw, strict=True):
            each.share(raw, most)
        self._following = [each for each in self.by_weigher if each is not None and each.follows]

    def follow(self, hosts: HostTable, spec: RequestSpec, changed: IntArray, number: int) -> None:
        """Rate the rows that changed before the change ``number``. Raises: NotKeepable, RuleFailed."""
        self.number = number
        if len(changed):
            self._rate(self._following, hosts, spec, changed)

    def touch(self, hosts: HostTable, spec: RequestSpec, touched: IntArray) -> None:
        """Rate hosts again whose service or aggregates changed. Raises: NotKeepable, RuleFailed."""
        for weigher, known in zip(self._weighers, self.by_weigher, strict=True):
            if not (_is_of_request(weigher) or has_same_factors(weigher, known, hosts)):
                raise NotKeepable
        self._rate([each for each in self.by_weigher if each is not None], hosts, spec, touched)

    def _rate(self, some: Sequence[Ratings], hosts: HostTable, spec: RequestSpec, changed: IntArray) -> None:
        rows = changed.tolist()
        for each in some:
            values = each.follow(hosts, spec, changed)
            if values is not None:
                for end in (each.high, each.low):
                    if end is not None:
                        end.put(rows, values)


def _is_of_request(weigher: Weigher) -> bool:
    """Tell whether a weigher's ratings depend on the request."""
    return DependsOn.REQUEST in (dependence_of(weigher) or DependsOn.SHARED)
