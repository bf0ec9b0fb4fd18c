# SPDX-License-Identifier: Apache-2.0
"""Weighers: rules that rate the hosts that passed the filters.

In: the host table, the request, the rows that passed. Out: one rating per row on any scale; higher is better.
The engine scales each weigher's ratings to 0 … 1 and multiplies them by the weigher's multiplier. The score of a host
is the sum over all weighers. If only one host passed the filters, weighers do not run.
"""

from collections.abc import Mapping
from typing import Any

from kilonova.scheduler.weighers.base import BaseHostWeigher, ColumnWeigher
from kilonova.scheduler.weighers.build_failure import BuildFailureWeigher
from kilonova.scheduler.weighers.cpu import CPUWeigher
from kilonova.scheduler.weighers.cross_cell import CrossCellWeigher
from kilonova.scheduler.weighers.disk import DiskWeigher
from kilonova.scheduler.weighers.hypervisor_version import HypervisorVersionWeigher
from kilonova.scheduler.weighers.image_cache import ImageCacheWeigher
from kilonova.scheduler.weighers.image_properties import ImagePropertiesWeigher
from kilonova.scheduler.weighers.io_ops import IoOpsWeigher
from kilonova.scheduler.weighers.metrics import MetricsWeigher
from kilonova.scheduler.weighers.num_instances import NumInstancesWeigher
from kilonova.scheduler.weighers.pci import PCIWeigher
from kilonova.scheduler.weighers.ram import RAMWeigher
from kilonova.scheduler.weighers.server_group_soft_affinity import ServerGroupSoftAffinityWeigher
from kilonova.scheduler.weighers.server_group_soft_anti_affinity import ServerGroupSoftAntiAffinityWeigher

WEIGHERS: Mapping[str, type[ColumnWeigher]] = {
    cls.__name__: cls
    for cls in (
        RAMWeigher,
        CPUWeigher,
        DiskWeigher,
        IoOpsWeigher,
        PCIWeigher,
        ServerGroupSoftAffinityWeigher,
        ServerGroupSoftAntiAffinityWeigher,
        BuildFailureWeigher,
        HypervisorVersionWeigher,
        NumInstancesWeigher,
        MetricsWeigher,
        CrossCellWeigher,
        ImagePropertiesWeigher,
        ImageCacheWeigher,
    )
}
"""Class name → built-in weigher class, in the order in which the ratings are summed up."""

__all__ = [
    "WEIGHERS",
    "BaseHostWeigher",
    "BuildFailureWeigher",
    "CPUWeigher",
    "ColumnWeigher",
    "CrossCellWeigher",
    "DiskWeigher",
    "HypervisorVersionWeigher",
    "ImageCacheWeigher",
    "ImagePropertiesWeigher",
    "IoOpsWeigher",
    "MetricsWeigher",
    "NumInstancesWeigher",
    "PCIWeigher",
    "RAMWeigher",
    "ServerGroupSoftAffinityWeigher",
    "ServerGroupSoftAntiAffinityWeigher",
    "all_weighers",
]


def all_weighers() -> list[type[Any]]:
    """Return the built-in weigher classes. The default value of ``weight_classes`` is the path of this function."""
    return list(WEIGHERS.values())
