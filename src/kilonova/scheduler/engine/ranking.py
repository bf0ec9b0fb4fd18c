# SPDX-License-Identifier: Apache-2.0
"""Scale, add up, and find the best few without sorting everybody."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from kilonova.errors import RuleFailed
from kilonova.model.request_spec import RequestSpec
from kilonova.scheduler.host_table import FloatArray, HostTable, IntArray, Rows
from kilonova.scheduler.rule import Weigher, rule_name

_FEW = 16


@dataclass(frozen=True, slots=True)
class Share:
    """What one weigher adds to each host's score; None is nothing. Shapes: (N,)."""

    weigher: str
    values: FloatArray | None


def shares(weighers: Sequence[Weigher], hosts: HostTable, spec: RequestSpec, rows: Rows, count: int) -> list[Share]:
    """Return each weigher's share of the scores of ``count`` rows, in weigher order. Raises: RuleFailed."""
    found = []
    for weigher in weighers:
        name = rule_name(weigher)
        with blaming(name):
            found.append(Share(name, _share(weigher, hosts, spec, rows, count)))
    return found


def total(parts: Sequence[Share], count: int) -> FloatArray:
    """Add the shares up element by element in weigher order, so that a replay is equal to the bit. Shapes: → (N,)."""
    scores = np.zeros(count)
    for part in parts:
        if part.values is not None:
            scores += part.values
    return scores


def best(scores: FloatArray, count: int) -> IntArray:
    """Return the indices of the ``count`` highest scores, best first, equal ones by index. Shapes: (N,) → (K,)."""
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
    threshold = np.partition(scores, size - count)[size - count]
    above = np.flatnonzero(scores > threshold)
    equal = np.flatnonzero(scores == threshold)[: count - len(above)]
    return np.concatenate([above[np.argsort(-scores[above], kind="stable")], equal])


class Scale(NamedTuple):
    """The ends between which ratings are scaled to 0 … 1, and whether some lie beyond a fixed end."""

    low: float
    high: float
    clip: bool

    def applied(self, raw: FloatArray) -> FloatArray:
        """Scale ratings, each by itself. Shapes: (N,) → (N,)."""
        if self.clip:
            raw = np.clip(raw, self.low, self.high)
        scaled: FloatArray = (raw - self.low) / (self.high - self.low) if self.low else raw / self.high
        return scaled

    def applied_to_one(self, raw: float) -> float:
        """Scale one rating, to the same bits."""
        if self.clip:
            raw = min(max(raw, self.low), self.high)
        return (raw - self.low) / (self.high - self.low) if self.low else raw / self.high


def scale(smallest: float, largest: float, minimum: float | None, maximum: float | None) -> Scale | None:
    """Return the scale of ratings from ``smallest`` to ``largest`` with these fixed ends; None is 0 for all of them."""
    if not math.isfinite(largest - smallest):
        raise ValueError("a weigher's ratings must be finite numbers")
    low = smallest if minimum is None else minimum
    high = largest if maximum is None else maximum
    if high <= low:
        return None
    return Scale(low, high, smallest < low or largest > high)


def normalised(raw: FloatArray, minimum: float | None, maximum: float | None) -> FloatArray | None:
    """Clamp ratings to the fixed ends, then scale them to 0 … 1; None is 0 for all. Shapes: (N,) → (N,)."""
    ends = scale(float(np.minimum.reduce(raw)), float(np.maximum.reduce(raw)), minimum, maximum)
    return None if ends is None else ends.applied(raw)


def weighted(scaled: FloatArray, factors: float | FloatArray) -> FloatArray:
    """Multiply scaled ratings. Shapes: (N,) → (N,)."""
    if isinstance(factors, float | int) and factors == 1:
        return scaled
    share: FloatArray = scaled * factors
    if not math.isfinite(factors if isinstance(factors, float | int) else share.sum()):
        raise ValueError("a weigher's multipliers must be finite numbers")
    return share


def ratings(weigher: Weigher, hosts: HostTable, spec: RequestSpec, rows: Rows, count: int) -> FloatArray | None:
    """Return what a weigher says of ``count`` rows; None is "all the same". Shapes: → (N,). Raises: ValueError."""
    raw = weigher.weigh(hosts, spec, rows)
    if raw is None:
        return None
    raw = np.asarray(raw, dtype=np.float64)
    if raw.shape != (count,):
        raise ValueError(f"{raw.shape} ratings for {count} hosts")
    return raw


def counts_nothing(factors: float | FloatArray) -> bool:
    """Tell whether a weigher need not be asked at all."""
    return isinstance(factors, float | int) and not factors


class blaming:  # noqa: N801 - reads like the context manager that it is, at a fifth of what a generator takes
    """Turn whatever third-party code raises into RuleFailed."""

    __slots__ = ("_weigher",)

    def __init__(self, weigher: str) -> None:
        self._weigher = weigher

    def __enter__(self) -> None:
        return None

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if isinstance(error, Exception) and not isinstance(error, RuleFailed):  # which says itself what is wrong
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
