# SPDX-License-Identifier: Apache-2.0
"""Scheduling rules of the embedded cloud: Nova's default filters, and those that read aggregate metadata.

``kilonova api`` keeps Nova's defaults. In the embedded cloud, aggregate metadata takes effect without a configuration
file: the added filters pass hosts without such metadata. Two of them fall back to an option for every host; both
options are set high, so that only aggregates limit hosts.
"""

from collections.abc import Mapping
from typing import Any

from kilonova.scheduler.settings import DEFAULT_FILTERS

FILTERS = (
    *DEFAULT_FILTERS,
    "AggregateInstanceExtraSpecsFilter",
    "AggregateImagePropertiesIsolation",
    "AggregateMultiTenancyIsolation",
    "AggregateTypeAffinityFilter",
    "AggregateIoOpsFilter",
    "AggregateNumInstancesFilter",
)
_NO_LIMIT = 1_000_000
_CHOOSING = (
    *(("filter_scheduler", name) for name in ("enabled_filters", "available_filters")),
    *(("DEFAULT", name) for name in ("scheduler_default_filters", "scheduler_available_filters")),
)
"""(section, option) of the options that choose filters, including deprecated names."""

Options = Mapping[str, Mapping[str, Any]]
"""Section → option → value."""


def rule_options(*given: Options) -> Options:
    """Return the filter options of the embedded cloud; empty if ``given`` chooses filters."""
    if any(name in options.get(section, {}) for options in given for section, name in _CHOOSING):
        return {}
    return {
        "filter_scheduler": {
            "enabled_filters": ",".join(FILTERS),
            "max_io_ops_per_host": _NO_LIMIT,
            "max_instances_per_host": _NO_LIMIT,
        }
    }
