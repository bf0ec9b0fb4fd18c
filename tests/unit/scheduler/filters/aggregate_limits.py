# SPDX-License-Identifier: Apache-2.0
"""Limits that aggregates set, for tests of the filters that compare a count of the host with a limit."""

from collections.abc import Sequence
from typing import Any

from tests.unit.scheduler.small_cloud import one_host_in, request

#: Values of the limit, one an aggregate (None: an aggregate without the key), and the limit that applies. The option's
#: value is 5.
LIMITS: tuple[tuple[Sequence[str | None], int], ...] = (
    ((), 5),
    ((None,), 5),
    (("3",), 3),
    (("9", "7"), 7),
    (("2", "many"), 5),
    (("2,3",), 5),
    (("99999999999999999999999",), 2**63 - 1),
)


def accepts(rule: Any, key: str, values: Sequence[str | None], column: str, count: int) -> bool:
    """Return whether a host with ``count`` in ``column`` passes, in one aggregate for each of ``values``."""
    metadata = [{"x": "y"} if value is None else {key: value} for value in values]
    (answer,) = rule.passes(one_host_in(*metadata, **{column: count}), request()).tolist()
    return bool(answer)
