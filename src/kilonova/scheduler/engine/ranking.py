# SPDX-License-Identifier: Apache-2.0
"""Scaling and summing of the weighers' ratings, and selection of the best hosts without a full sort."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from kilonova.errors import RuleFailed
from kilonova.model.request_spec import RequestSpec
from kilonova.records import dataclass
from kilonova.scheduler.host_table import FloatArray, HostTable, IntArray, Rows
from kilonova.scheduler.rule import Weigher, rule_name

_FEW = 16
#: Approximate size of the sample from which a threshold for the best of many scores is estimated.
_SAMPLE = 1024


@dataclass(frozen=True, slots=True)
class Share:
    """One weigher's contribution to the score of each host. ``values``: None means 0 for all hosts. Shapes: (N,)."""

    weigher: str
    values: FloatArray | None


def shares(weighers: Sequence[Weigher], hosts: HostTable, spec: RequestSpec, rows: Rows, count: int) -> list[Share]:
    """Return each weigher's contribution to the scores of ``rows``, in weigher order. Raises: RuleFailed.

    ``count``: the number of rows, needed because ``rows`` can be a slice.
    """
    found = []
    for weigher in weighers:
        name = rule_name(weigher)
        with blaming(name):
            found.append(Share(name, _share(weigher, hosts, spec, rows, count)))
    return found


def total(parts: Sequence[Share], count: int) -> FloatArray:
    """Sum the weighers' contributions. The fixed order of weighers makes results bit-identical. Shapes: → (N,)."""
    scores = np.zeros(count)
    for part in parts:
        if part.values is not None:
            scores += part.values
    return scores


def best(scores: FloatArray, count: int) -> IntArray:
    """Return the indices of the ``count`` highest scores, best first, equal scores by index. Shapes: (N,) → (K,)."""
    size = len(scores)
    if count >= size:
        return np.argsort(-scores, kind="stable")
    if count <= _FEW:
        left = scores.copy()
        chosen = np.empty(count, dtype=np.int64)
        for place in range(count):
            chosen[place] = top = int(left.argmax())
            left[top] = -np.inf
        return chosen
    places = best_places(scores, count)
    return places[np.argsort(-scores[places], kind="stable")]


def large(values: FloatArray, count: int) -> IntArray | None:
    """Return ascending indices that include those of the ``count`` largest values, of equal ones the first.

    Return None if a sample of the values does not separate the largest ones. The result has at most a quarter of the
    indices. It takes a tenth of the time of a partition. Shapes: (N,) → (K,).
    """
    size = len(values)
    sample = values[:: size // _SAMPLE | 1]
    place = len(sample) - min(len(sample), 2 * count * len(sample) // size + _FEW)
    threshold = float(np.partition(sample, place)[place])
    above = values > threshold
    found = int(np.count_nonzero(above))
    if found >= count:
        return np.flatnonzero(above) if found <= size // 4 else None
    missing = count - found
    equal = np.flatnonzero(values == threshold)
    if missing > len(equal) or count > size // 4:
        return None
    above[equal[:missing]] = True
    return np.flatnonzero(above)


def best_places(scores: FloatArray, count: int) -> IntArray:
    """Return the indices of the ``count`` highest scores in ascending order. Shapes: (N,) → (K,)."""
    size = len(scores)
    if count >= size:
        return np.arange(size)
    among = None if size < 4 * _SAMPLE else large(scores, count)
    if among is not None:
        return among if len(among) == count else among[best_places(scores[among], count)]
    threshold = np.partition(scores, size - count)[size - count]
    places = scores > threshold
    equal = np.flatnonzero(scores == threshold)
    places[equal[: count - int(np.count_nonzero(places))]] = True
    return np.flatnonzero(places)


class Scale(NamedTuple):
    """A linear scale of ratings: ``low`` becomes 0, ``high`` becomes 1. ``clip``: cut ratings off at these bounds."""

    low: float
    high: float
    clip: bool

    def applied(self, raw: FloatArray) -> FloatArray:
        """Scale an array of ratings. Shapes: (N,) → (N,)."""
        if self.clip:
            raw = np.clip(raw, self.low, self.high)
        scaled: FloatArray = (raw - self.low) / (self.high - self.low) if self.low else raw / self.high
        return scaled

    def applied_to_one(self, raw: float) -> float:
        """Scale one rating. The result is bit-identical to that of :meth:`applied`."""
        if self.clip:
            raw = min(max(raw, self.low), self.high)
        return (raw - self.low) / (self.high - self.low) if self.low else raw / self.high


def scale(smallest: float, largest: float, minimum: float | None, maximum: float | None) -> Scale | None:
    """Return the scale of ratings from ``smallest`` to ``largest``, or None if all scaled ratings are 0.

    ``minimum`` / ``maximum``: fixed bounds that replace ``smallest`` and ``largest``.
    """
    if not math.isfinite(largest - smallest):
        raise ValueError("a weigher's ratings must be finite numbers")
    low = smallest if minimum is None else minimum
    high = largest if maximum is None else maximum
    if high <= low:
        return None
    return Scale(low, high, smallest < low or largest > high)


def normalised(raw: FloatArray, minimum: float | None, maximum: float | None) -> FloatArray | None:
    """Clip ratings to the fixed bounds and scale them to 0 … 1. None means 0 for all hosts. Shapes: (N,) → (N,)."""
    ends = scale(float(np.minimum.reduce(raw)), float(np.maximum.reduce(raw)), minimum, maximum)
    return None if ends is None else ends.applied(raw)


def weighted(scaled: FloatArray, factors: float | FloatArray) -> FloatArray:
    """Multiply scaled ratings by a multiplier, or by one multiplier per host. Shapes: (N,) → (N,)."""
    if isinstance(factors, float | int) and factors == 1:
        return scaled
    share: FloatArray = scaled * factors
    if not math.isfinite(factors if isinstance(factors, float | int) else share.sum()):
        raise ValueError("a weigher's multipliers must be finite numbers")
    return share


def ratings(weigher: Weigher, hosts: HostTable, spec: RequestSpec, rows: Rows, count: int) -> FloatArray | None:
    """Return a weigher's ratings of ``count`` rows, or None if the weigher has no preference.

    Shapes: → (N,). Raises: ValueError, if the number of ratings is wrong.
    """
    raw = weigher.weigh(hosts, spec, rows)
    if raw is None:
        return None
    raw = np.asarray(raw, dtype=np.float64)
    if raw.shape != (count,):
        raise ValueError(f"{raw.shape} ratings for {count} hosts")
    return raw


def counts_nothing(factors: float | FloatArray) -> bool:
    """Tell whether the multiplier of a weigher is 0 for all hosts, so that the weigher need not run."""
    return isinstance(factors, float | int) and not factors


class blaming:  # noqa: N801 - a context manager; a class takes a fifth of the time of a generator function
    """Context manager that converts any exception of a weigher into RuleFailed, naming the weigher."""

    __slots__ = ("_weigher",)

    def __init__(self, weigher: str) -> None:
        self._weigher = weigher

    def __enter__(self) -> None:
        return None

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if isinstance(error, Exception) and not isinstance(error, RuleFailed):  # a RuleFailed has the name of its rule
            raise weigher_failed(self._weigher) from error


def weigher_failed(weigher: str) -> RuleFailed:
    return RuleFailed(f"Weigher {weigher} failed.", rule=weigher)


def _share(weigher: Weigher, hosts: HostTable, spec: RequestSpec, rows: Rows, count: int) -> FloatArray | None:
    factors = weigher.factors(hosts, rows)
    if counts_nothing(factors):
        return None
    raw = ratings(weigher, hosts, spec, rows, count)
    if raw is None:
        return None
    scaled = normalised(raw, weigher.minimum, weigher.maximum)
    return None if scaled is None else weighted(scaled, factors)
