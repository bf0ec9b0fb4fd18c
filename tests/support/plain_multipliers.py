# SPDX-License-Identifier: Apache-2.0
"""Plain definition of the multipliers of weighers, which aggregates can set for their hosts."""

import math
from collections.abc import Sequence

from kilonova.model.aggregate import Aggregate


def multiplier(aggregates: Sequence[Aggregate], key: str, default: float) -> float:
    """Return the smallest value of ``key`` in the metadata of a host's aggregates.

    ``default`` is returned if no aggregate has the key, or if a value is not a finite number.
    """
    try:
        numbers = [float(each.metadata[key]) for each in aggregates if key in each.metadata]
    except ValueError:
        return default
    return min(numbers, default=default) if all(map(math.isfinite, numbers)) else default
