# SPDX-License-Identifier: Apache-2.0
"""Filters: rules that exclude hosts.

In: the host table and the request. Out: a mask, True for the hosts that pass.
A filter has no side effects, does not depend on other filters, and judges each host independently.
"""

from collections.abc import Mapping
from typing import Any

from kilonova.scheduler.filters.aggregate_core import AggregateCoreFilter
from kilonova.scheduler.filters.aggregate_disk import AggregateDiskFilter
from kilonova.scheduler.filters.aggregate_image_properties_isolation import AggregateImagePropertiesIsolation
from kilonova.scheduler.filters.aggregate_instance_extra_specs import AggregateInstanceExtraSpecsFilter
from kilonova.scheduler.filters.aggregate_io_ops import AggregateIoOpsFilter
from kilonova.scheduler.filters.aggregate_multitenancy_isolation import AggregateMultiTenancyIsolation
from kilonova.scheduler.filters.aggregate_num_instances import AggregateNumInstancesFilter
from kilonova.scheduler.filters.aggregate_ram import AggregateRamFilter
from kilonova.scheduler.filters.aggregate_type_affinity import AggregateTypeAffinityFilter
from kilonova.scheduler.filters.all_hosts import AllHostsFilter
from kilonova.scheduler.filters.availability_zone import AvailabilityZoneFilter
from kilonova.scheduler.filters.base import BaseHostFilter
from kilonova.scheduler.filters.compute import ComputeFilter
from kilonova.scheduler.filters.compute_capabilities import ComputeCapabilitiesFilter
from kilonova.scheduler.filters.core import CoreFilter
from kilonova.scheduler.filters.different_host import DifferentHostFilter
from kilonova.scheduler.filters.disk import DiskFilter
from kilonova.scheduler.filters.exact_core import ExactCoreFilter
from kilonova.scheduler.filters.exact_disk import ExactDiskFilter
from kilonova.scheduler.filters.exact_ram import ExactRamFilter
from kilonova.scheduler.filters.image_properties import ImagePropertiesFilter
from kilonova.scheduler.filters.io_ops import IoOpsFilter
from kilonova.scheduler.filters.isolated_hosts import IsolatedHostsFilter
from kilonova.scheduler.filters.json_query import JsonFilter
from kilonova.scheduler.filters.metrics import MetricsFilter
from kilonova.scheduler.filters.num_instances import NumInstancesFilter
from kilonova.scheduler.filters.numa_topology import NUMATopologyFilter
from kilonova.scheduler.filters.pci_passthrough import PciPassthroughFilter
from kilonova.scheduler.filters.ram import RamFilter
from kilonova.scheduler.filters.retry import RetryFilter
from kilonova.scheduler.filters.same_host import SameHostFilter
from kilonova.scheduler.filters.server_group_affinity import ServerGroupAffinityFilter
from kilonova.scheduler.filters.server_group_anti_affinity import ServerGroupAntiAffinityFilter
from kilonova.scheduler.filters.simple_cidr_affinity import SimpleCIDRAffinityFilter
from kilonova.scheduler.filters.type_affinity import TypeAffinityFilter

FILTERS: Mapping[str, type[Any]] = {
    cls.__name__: cls
    for cls in (
        AggregateCoreFilter,
        AggregateDiskFilter,
        AggregateImagePropertiesIsolation,
        AggregateInstanceExtraSpecsFilter,
        AggregateIoOpsFilter,
        AggregateMultiTenancyIsolation,
        AggregateNumInstancesFilter,
        AggregateRamFilter,
        AggregateTypeAffinityFilter,
        AllHostsFilter,
        AvailabilityZoneFilter,
        ComputeCapabilitiesFilter,
        ComputeFilter,
        CoreFilter,
        DifferentHostFilter,
        DiskFilter,
        ExactCoreFilter,
        ExactDiskFilter,
        ExactRamFilter,
        ImagePropertiesFilter,
        IoOpsFilter,
        IsolatedHostsFilter,
        JsonFilter,
        MetricsFilter,
        NUMATopologyFilter,
        NumInstancesFilter,
        PciPassthroughFilter,
        RamFilter,
        RetryFilter,
        SameHostFilter,
        ServerGroupAffinityFilter,
        ServerGroupAntiAffinityFilter,
        SimpleCIDRAffinityFilter,
        TypeAffinityFilter,
    )
}
"""Class name in ``enabled_filters`` → built-in filter class."""

__all__ = [
    "FILTERS",
    "AggregateCoreFilter",
    "AggregateDiskFilter",
    "AggregateImagePropertiesIsolation",
    "AggregateInstanceExtraSpecsFilter",
    "AggregateIoOpsFilter",
    "AggregateMultiTenancyIsolation",
    "AggregateNumInstancesFilter",
    "AggregateRamFilter",
    "AggregateTypeAffinityFilter",
    "AllHostsFilter",
    "AvailabilityZoneFilter",
    "BaseHostFilter",
    "ComputeCapabilitiesFilter",
    "ComputeFilter",
    "CoreFilter",
    "DifferentHostFilter",
    "DiskFilter",
    "ExactCoreFilter",
    "ExactDiskFilter",
    "ExactRamFilter",
    "ImagePropertiesFilter",
    "IoOpsFilter",
    "IsolatedHostsFilter",
    "JsonFilter",
    "MetricsFilter",
    "NUMATopologyFilter",
    "NumInstancesFilter",
    "PciPassthroughFilter",
    "RamFilter",
    "RetryFilter",
    "SameHostFilter",
    "ServerGroupAffinityFilter",
    "ServerGroupAntiAffinityFilter",
    "SimpleCIDRAffinityFilter",
    "TypeAffinityFilter",
    "all_filters",
]


def all_filters() -> list[type[Any]]:
    """Return the built-in filter classes. The default value of ``available_filters`` is the path of this function."""
    return list(FILTERS.values())
