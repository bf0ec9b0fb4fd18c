# SPDX-License-Identifier: Apache-2.0
"""Read-only configuration of the scheduling rules, with Nova's option names and defaults."""

import math
from collections.abc import Iterable

from kilonova.records import dataclass

DEFAULT_FILTERS = (
    "ComputeFilter",
    "ComputeCapabilitiesFilter",
    "ImagePropertiesFilter",
    "ServerGroupAntiAffinityFilter",
    "ServerGroupAffinityFilter",
)


@dataclass(frozen=True, slots=True)
class SchedulerConfig:
    """Options of the scheduling rules: those of ``[filter_scheduler]`` and ``[scheduler]``, and a few of other groups.

    ``metrics_*`` are the options of ``[metrics]``; ``*_weight_setting`` hold ``name=ratio`` pairs.
    ``available_filters``: dotted paths of filter classes, or of callables that return filter classes.
    ``pci_alias``: ``[pci] alias``, each value a JSON object.
    ``enabled_filters``: class names without module, in the order in which the filters run; empty items are ignored.
    ``driver``: dotted path or entry point name of the class that chooses hosts.
    ``request_filters``: dotted paths or entry point names, run after the built-in ones.
    ``plugin_path``: folders whose modules can be imported and whose rules can be enabled, without installation.
    ``check_kept_decisions``: whether each decision from kept verdicts is compared with a decision of all rules.
    ``nova_import_compat``: whether rules that import from ``nova.scheduler`` run unchanged.
    Units: ``service_down_time`` and ``driver_timeout`` seconds.
    Source: spec SCHEDULER §8.
    """

    # [filter_scheduler]
    available_filters: tuple[str, ...] = ("kilonova.scheduler.filters.all_filters",)
    enabled_filters: tuple[str, ...] = DEFAULT_FILTERS
    weight_classes: tuple[str, ...] = ("kilonova.scheduler.weighers.all_weighers",)
    host_subset_size: int = 1
    shuffle_best_same_weighed_hosts: bool = False
    max_io_ops_per_host: int = 8
    max_instances_per_host: int = 50
    ram_weight_multiplier: float = 1.0
    cpu_weight_multiplier: float = 1.0
    disk_weight_multiplier: float = 1.0
    io_ops_weight_multiplier: float = -1.0
    num_instances_weight_multiplier: float = 0.0
    hypervisor_version_weight_multiplier: float = 1.0
    soft_affinity_weight_multiplier: float = 1.0
    soft_anti_affinity_weight_multiplier: float = 1.0
    build_failure_weight_multiplier: float = 1000000.0
    cross_cell_move_weight_multiplier: float = 1000000.0
    pci_weight_multiplier: float = 1.0
    image_cache_weight_multiplier: float = 0.0
    image_props_weight_multiplier: float = 0.0
    image_props_weight_setting: tuple[str, ...] = ()
    image_properties_default_architecture: str | None = None
    isolated_images: tuple[str, ...] = ()
    isolated_hosts: tuple[str, ...] = ()
    restrict_isolated_hosts_to_isolated_images: bool = True
    aggregate_image_properties_isolation_namespace: str | None = None
    aggregate_image_properties_isolation_separator: str = "."
    # [scheduler]
    max_attempts: int = 3
    limit_tenants_to_placement_aggregate: bool = False
    placement_aggregate_required_for_tenants: bool = False
    enable_isolated_aggregate_filtering: bool = False
    driver: str = "filter_scheduler"
    driver_timeout: float = 30.0
    request_filters: tuple[str, ...] = ()
    plugin_path: tuple[str, ...] = ()
    nova_import_compat: bool = False
    check_kept_decisions: bool = False
    query_placement_for_image_type_support: bool = False
    query_placement_for_routed_network_aggregates: bool = False
    image_metadata_prefilter: bool = False
    # [workarounds]
    disable_fallback_pcpu_query: bool = False
    # [metrics]
    metrics_weight_multiplier: float = 1.0
    metrics_weight_setting: tuple[str, ...] = ()
    metrics_required: bool = True
    metrics_weight_of_unavailable: float = -10000.0
    # [pci]
    pci_alias: tuple[str, ...] = ()
    # [DEFAULT]
    service_down_time: int = 60
    default_availability_zone: str = "nova"


def weight_setting(entries: Iterable[str]) -> tuple[tuple[tuple[str, float], ...], tuple[str, ...]]:
    """Parse ``name=ratio`` entries. Return the (name, ratio) pairs, and the invalid entries."""
    pairs: list[tuple[str, float]] = []
    bad: list[str] = []
    for entry in entries:
        name, _, text = entry.partition("=")
        try:
            ratio = float(text)
        except ValueError:
            ratio = math.nan
        if name and math.isfinite(ratio):
            pairs.append((name, ratio))
        else:
            bad.append(entry)
    return tuple(pairs), tuple(bad)
