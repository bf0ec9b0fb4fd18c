# SPDX-License-Identifier: Apache-2.0
"""What rules written Nova's way ask about the aggregates and the instances of one host.

They take the place of ``nova.scheduler.filters.utils``: ``from kilonova.scheduler import aggregate_values as utils``.
"""

import logging
from collections.abc import Callable, Iterable
from typing import Any

from kilonova.scheduler.aggregate_rules import split

LOG = logging.getLogger(__name__)


def aggregate_values_from_key(host_state: Any, key_name: str) -> set[str]:
    """Return the values that the host's aggregates have under a key, each as it is written."""
    return {each.metadata[key_name] for each in host_state.aggregates if key_name in each.metadata}


def aggregate_metadata_get_by_host(host_state: Any, key: str | None = None) -> dict[str, set[str]]:
    """Return key → all values of the host's aggregates, comma lists taken apart.

    ``key``: only aggregates that have it are looked at, with everything that they say.
    """
    values: dict[str, set[str]] = {}
    for aggregate in host_state.aggregates:
        if key is None or key in aggregate.metadata:
            for name, text in aggregate.metadata.items():
                values.setdefault(name, set()).update(split(text))
    return values


def validate_num_values(
    vals: Iterable[str],
    default: Any = None,
    cast_to: Callable[[str], Any] = int,
    based_on: Callable[[Iterable[Any]], Any] = min,
) -> Any:
    """Return the smallest (or else) of some numbers, ``default`` when there is none. Raises: ValueError."""
    numbers = [cast_to(value) for value in vals]
    return based_on(numbers) if numbers else default


def instance_uuids_overlap(host_state: Any, uuids: str | Iterable[str]) -> bool:
    """Tell whether one of the instances runs on the host."""
    wanted = {uuids} if isinstance(uuids, str) else set(uuids or ())
    return not wanted.isdisjoint(host_state.instances)


def get_weight_multiplier(host_state: Any, multiplier_name: str, multiplier_config: float) -> float:
    """Return the smallest multiplier of the host's aggregates, the configured one when they have none or no number."""
    found = aggregate_values_from_key(host_state, multiplier_name)
    try:
        return float(validate_num_values(found, multiplier_config, cast_to=float))
    except ValueError:
        LOG.warning("%s: not every %s of its aggregates is a number", host_state, multiplier_name)
        return multiplier_config
