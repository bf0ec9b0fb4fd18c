# SPDX-License-Identifier: Apache-2.0
"""The rules of the embedded cloud: Nova's default filters, and those that act on the metadata of aggregates.

``kilonova api`` keeps Nova's defaults. Here an aggregate with metadata works without a configuration file: these
filters ask nothing of hosts without such metadata. Two of them fall back to an option on every host, so both options
are out of the way and aggregates alone set limits.
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
"""Sections and options, past names included, by which somebody chooses filters."""

Options = Mapping[str, Mapping[str, Any]]
"""Section → option → value."""


def rule_options(*given: Options) -> Options:
    """Return the options of the embedded cloud; none where ``given`` choose filters themselves."""
    if any(name in options.get(section, {}) for options in given for section, name in _CHOOSING):
        return {}
    return {
        "filter_scheduler": {
            "enabled_filters": ",".join(FILTERS),
            "max_io_ops_per_host": _NO_LIMIT,
            "max_instances_per_host": _NO_LIMIT,
        }
    }
