# SPDX-License-Identifier: Apache-2.0
"""Replacement of ``nova.scheduler.filters.utils`` for Nova-style filters and weighers.

Use: ``from kilonova.scheduler import aggregate_values as utils``.
"""

import logging
from collections.abc import Callable, Iterable
from typing import Any

from kilonova.scheduler.aggregate_rules import split

LOG = logging.getLogger(__name__)


def aggregate_values_from_key(host_state: Any, key_name: str) -> set[str]:
    """Return the distinct values of a metadata key among the host's aggregates, without splitting comma lists."""
    return {each.metadata[key_name] for each in host_state.aggregates if key_name in each.metadata}


def aggregate_metadata_get_by_host(host_state: Any, key: str | None = None) -> dict[str, set[str]]:
    """Return metadata key → all values among the host's aggregates, with comma lists split.

    ``key``: if given, use all metadata of the aggregates that have this key, and ignore the other aggregates.
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
    """Convert ``vals`` with ``cast_to`` and return the smallest value, or ``default`` if ``vals`` is empty.

    ``based_on``: function that selects the value, in place of ``min``. Raises: ValueError.
    """
    numbers = [cast_to(value) for value in vals]
    return based_on(numbers) if numbers else default


def instance_uuids_overlap(host_state: Any, uuids: str | Iterable[str]) -> bool:
    """Tell whether at least one of the instances ``uuids`` runs on the host."""
    wanted = {uuids} if isinstance(uuids, str) else set(uuids or ())
    return not wanted.isdisjoint(host_state.instances)


def get_weight_multiplier(host_state: Any, multiplier_name: str, multiplier_config: float) -> float:
    """Return the smallest value of a weight multiplier among the host's aggregates.

    ``multiplier_config``: the configured value. It is used if no aggregate of the host sets the multiplier, or if an
    aggregate's value is not a number.
    """
    found = aggregate_values_from_key(host_state, multiplier_name)
    try:
        return float(validate_num_values(found, multiplier_config, cast_to=float))
    except ValueError:
        LOG.warning("%s: an aggregate has an invalid %s; using the configured value", host_state, multiplier_name)
        return multiplier_config
