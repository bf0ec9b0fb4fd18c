# SPDX-License-Identifier: Apache-2.0
"""Helpers of rules that read aggregate metadata. They test each aggregate once, and then combine the member hosts.

Results are cached in the host table's memo, which is replaced whenever the aggregates change. Axis: A aggregates.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from kilonova.model.aggregate import Aggregate
from kilonova.scheduler.host_table import BoolArray, FloatArray, HostTable, IntArray

_INT64_MAX = 2**63 - 1


def split(text: str) -> tuple[str, ...]:
    """Split a comma-separated list and strip the blanks around each item."""
    return tuple(word.strip() for word in text.split(","))


def in_any(hosts: HostTable, wanted: Sequence[bool]) -> BoolArray:
    """Return the mask of the hosts in at least one aggregate that ``wanted`` marks True. Shapes: (A,) → (H,)."""
    return hosts.of_each_host(("in any of", bytes(wanted)), lambda table: table.aggregates.hosts_in_any(wanted))


def if_concerned(
    hosts: HostTable, concerns: Callable[[Aggregate], bool], satisfied: Callable[[Aggregate], bool]
) -> BoolArray:
    """Return the mask of the hosts that pass a rule which concerns only hosts in certain aggregates. Shapes: → (H,).

    A host passes if ``concerns`` is False for all its aggregates, or if ``satisfied`` is True for one of them.
    """
    aggregates = hosts.aggregates.aggregates
    concerned = in_any(hosts, [concerns(aggregate) for aggregate in aggregates])
    content = in_any(hosts, [satisfied(aggregate) for aggregate in aggregates])
    return ~concerned | content


def integer_limits(hosts: HostTable, key: str, default: int) -> int | IntArray:
    """Return, for each host, the smallest integer value of ``key`` in the metadata of its aggregates.

    A host gets ``default`` if no aggregate of it has the key or if a value is not an integer. Shapes: → () or (H,).
    """
    limits: int | IntArray = hosts.of_each_host(
        ("integer limits", key, default), lambda table: _smallest(table, key, default, _integer, _INT64_MAX)
    )
    return limits


def float_factors(hosts: HostTable, key: str, default: float) -> float | FloatArray:
    """Return, for each host, the smallest number that ``key`` has in the metadata of its aggregates.

    A host gets ``default`` if no aggregate of it has the key or if a value is not a finite number. Shapes: → () or
    (H,).
    """
    factors: float | FloatArray = hosts.of_each_host(
        ("float factors", key, default), lambda table: _smallest(table, key, default, _finite, math.inf)
    )
    return factors


def _integer(text: str) -> int:
    return max(-_INT64_MAX, min(_INT64_MAX, int(text)))


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(text)
    return value


def _smallest(hosts: HostTable, key: str, default: float, convert: Callable[[str], float], largest: float) -> Any:
    """Return an array with the smallest value of ``key`` for each host.

    If no host is in an aggregate with the key, return the number ``default`` instead of an array. ``largest``: initial
    value of the minimum, which determines the array's data type.
    """
    aggregates = hosts.aggregates
    found = [index for index, aggregate in enumerate(aggregates.aggregates) if key in aggregate.metadata]
    concerned = aggregates.membership[found].any(axis=0)
    if not concerned.any():
        return default
    values = np.full(len(hosts), largest)
    broken = ~concerned
    for index in found:
        rows = aggregates.membership[index]
        try:
            value = convert(aggregates.aggregates[index].metadata[key])
        except ValueError:
            broken |= rows
        else:
            np.minimum(values, value, out=values, where=rows)
    values[broken] = default
    return values
