# SPDX-License-Identifier: Apache-2.0
"""Set of many filters for clouds in which hardly any host passes."""

#: Filters of which one host can pass all.
STRICT_FILTERS = (
    "AggregateImagePropertiesIsolation",
    "AggregateInstanceExtraSpecsFilter",
    "AggregateIoOpsFilter",
    "AggregateMultiTenancyIsolation",
    "AggregateNumInstancesFilter",
    "AggregateTypeAffinityFilter",
    "ComputeCapabilitiesFilter",
    "ComputeFilter",
    "DifferentHostFilter",
    "ImagePropertiesFilter",
    "IoOpsFilter",
    "IsolatedHostsFilter",
    "NumInstancesFilter",
    "SameHostFilter",
    "ServerGroupAffinityFilter",
    "ServerGroupAntiAffinityFilter",
    "SimpleCIDRAffinityFilter",
)
