# SPDX-License-Identifier: Apache-2.0
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from tests.unit.scheduler.small_cloud import host, request, table

from kilonova.errors import RuleFailed
from kilonova.scheduler.engine.ranking import best, normalised, shares, total
from kilonova.scheduler.host_table import ALL_ROWS


@pytest.mark.parametrize(
    ("raw", "minimum", "maximum", "expected"),
    [
        ([10, 20, 30], 0.0, None, [1 / 3, 2 / 3, 1]),
        ([10, 20, 30], None, None, [0, 0.5, 1]),
        ([7, 7, 7], 0.0, None, [1, 1, 1]),
        ([7, 7, 7], None, None, None),
        ([0, 0, 0], 0.0, None, None),
        ([-5, 0, 10], 0.0, None, [0, 0, 1]),
        ([-5, -1, -3], 0.0, None, None),
        ([0, 50, 200], None, 100.0, [0, 0.5, 1]),
        ([0, 50, 200], 0.0, 100.0, [0, 0.5, 1]),
        ([10, 20, 30], 10.0, 20.0, [0, 1, 1]),
        ([200, 300, 400], None, 100.0, None),
    ],
)
def test_ratings_are_scaled_between_the_ends(
    raw: list[float], minimum: float | None, maximum: float | None, expected: list[float] | None
) -> None:
    scaled = normalised(np.array(raw, dtype=float), minimum, maximum)
    assert (None if scaled is None else scaled.tolist()) == (None if expected is None else pytest.approx(expected))


@pytest.mark.parametrize("size", [1, 5, 40, 300])
@pytest.mark.parametrize("count", [0, 1, 3, 16, 17, 39, 40, 299, 300])
@pytest.mark.parametrize("distinct", [1, 3, 1000])
def test_the_best_few_are_those_of_a_stable_sort(size: int, count: int, distinct: int) -> None:
    scores = np.random.default_rng(size).integers(0, distinct, size).astype(float)
    expected = sorted(range(size), key=lambda index: -scores[index])[:count]
    assert best(scores, min(count, size)).tolist() == expected


@pytest.mark.parametrize("distinct", [1, 2, 3, 100, 2**40])
@pytest.mark.parametrize("count", [17, 64, 512, 3000, 9_999])
@pytest.mark.parametrize("period", [0, 3, 97])
def test_the_best_of_many_are_those_of_a_stable_sort(distinct: int, count: int, period: int) -> None:
    size = 10_000
    scores = np.random.default_rng(distinct).integers(0, distinct, size).astype(float)
    if period:
        scores = scores[np.arange(size) % period]
    assert best(scores, count).tolist() == np.argsort(-scores, kind="stable")[:count].tolist()


@dataclass(frozen=True)
class Fixed:
    """Rates hosts with given numbers."""

    raw: Any
    factor: Any = 1.0
    minimum: float | None = None
    maximum: float | None = None

    def factors(self, hosts: Any, rows: Any) -> Any:
        return self.factor

    def weigh(self, hosts: Any, spec: Any, rows: Any) -> Any:
        if isinstance(self.raw, Exception):
            raise self.raw
        return self.raw


HOSTS = table(host("a"), host("b"))


def test_shares_are_multiplied_and_added_up_in_order() -> None:
    parts = shares(
        [
            Fixed([1, 3]),
            Fixed([0, 1], 2.0),
            Fixed([0, 1], np.array([5.0, -1.0])),
            Fixed(None),
            Fixed([1, 1]),
            Fixed([1, 2], 0.0),
        ],
        HOSTS,
        request(),
        ALL_ROWS,
        2,
    )
    assert [None if part.values is None else part.values.tolist() for part in parts] == [
        [0, 1],
        [0, 2],
        [0, -1],
        None,
        None,
        None,
    ]
    assert total(parts, 2).tolist() == [0, 2]


@pytest.mark.parametrize(
    "broken",
    [
        Fixed(KeyError("x")),
        Fixed([1.0]),
        Fixed([float("nan"), 1.0]),
        Fixed([float("nan"), 1.0], minimum=0.0, maximum=1.0),
        Fixed([float("inf"), 1.0]),
        Fixed([0, 1], np.array([1.0, float("nan")])),
        Fixed(["a", "b"]),
    ],
)
def test_a_weigher_that_breaks_is_named(broken: Fixed) -> None:
    with pytest.raises(RuleFailed, match="Weigher Fixed failed") as caught:
        shares([broken], HOSTS, request(), ALL_ROWS, 2)
    assert caught.value.__cause__ is not None
    assert caught.value.fields == {"rule": "Fixed"}
