# SPDX-License-Identifier: Apache-2.0
from typing import Any

import pytest

from kilonova.scheduler import filters


class Odd(filters.BaseHostFilter):
    def host_passes(self, host_state: Any, filter_properties: Any) -> bool:
        return bool(host_state % 2)


def test_filter_all_asks_host_by_host() -> None:
    kept = Odd().filter_all([1, 2, 3], None)
    assert kept is not None
    assert list(kept) == [1, 3]


def test_the_base_has_no_opinion() -> None:
    with pytest.raises(NotImplementedError):
        filters.BaseHostFilter().host_passes(None, None)


def test_all_filters_returns_every_built_in_class_under_its_nova_name() -> None:
    assert {cls.__name__: cls for cls in filters.all_filters()} == filters.FILTERS
    assert {"ComputeFilter", "AggregateImagePropertiesIsolation", "SimpleCIDRAffinityFilter"} <= set(filters.FILTERS)


def test_flags_are_those_of_nova() -> None:
    often = {name for name, cls in filters.FILTERS.items() if not cls.run_once}
    rebuild = {name for name, cls in filters.FILTERS.items() if cls.runs_on_rebuild}
    assert often == {
        "AggregateCoreFilter",
        "AggregateDiskFilter",
        "AggregateRamFilter",
        "CoreFilter",
        "DiskFilter",
        "ExactCoreFilter",
        "ExactDiskFilter",
        "ExactRamFilter",
        "JsonFilter",
        "MetricsFilter",
        "RamFilter",
        "RetryFilter",
        "TypeAffinityFilter",
        "AggregateIoOpsFilter",
        "AggregateNumInstancesFilter",
        "IoOpsFilter",
        "NUMATopologyFilter",
        "NumInstancesFilter",
        "PciPassthroughFilter",
        "ServerGroupAffinityFilter",
        "ServerGroupAntiAffinityFilter",
    }
    assert rebuild == {"AggregateImagePropertiesIsolation", "ImagePropertiesFilter", "IsolatedHostsFilter"}
