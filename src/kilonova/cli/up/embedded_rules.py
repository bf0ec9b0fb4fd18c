# SPDX-License-Identifier: Apache-2.0
"""Scheduling rules of a cloud of ``kilonova up``: Nova's default filters, and filters that read aggregate metadata.

By default, ``kilonova api`` uses Nova's default filters only. ``kilonova up`` adds filters, so that aggregate metadata
takes effect without any configuration. The added filters reject no host whose aggregates lack such metadata. For
such hosts AggregateIoOpsFilter and AggregateNumInstancesFilter apply limits from options, which are set so high that no
host exceeds them.
"""

from kilonova.scenario.options import Sections
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
"""(section, option) of each option that selects filters, including deprecated names."""


def rule_options(*given: Sections) -> Sections:
    """Return the filter options of a cloud of ``kilonova up``; {} if ``given`` options already select filters."""
    if any(name in options.get(section, {}) for options in given for section, name in _CHOOSING):
        return {}
    return {
        "filter_scheduler": {
            "enabled_filters": ",".join(FILTERS),
            "max_io_ops_per_host": _NO_LIMIT,
            "max_instances_per_host": _NO_LIMIT,
        }
    }
