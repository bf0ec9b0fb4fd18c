# SPDX-License-Identifier: Apache-2.0
"""The HostState attributes of Nova (``free_ram_mb``, …), computed from the columns of a HostTable."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kilonova.scheduler.host_table import HostTable, Rows

Column = Callable[[HostTable, Rows], NDArray[Any]]
MIB_PER_GIB = 1024


def _inventory(name: str, resource_class: str, scale: int = 1) -> Column:
    def column(hosts: HostTable, rows: Rows) -> NDArray[Any]:
        at = hosts.column(resource_class)
        if at is None:
            return np.zeros(len(hosts), dtype=np.int64)[rows]
        values: NDArray[Any] = getattr(hosts, name)[:, at][rows]
        scaled: NDArray[Any] = values * scale
        return scaled

    return column


def _free_disk_mb(hosts: HostTable, rows: Rows) -> NDArray[Any]:
    return hosts.free("DISK_GB", rows) * MIB_PER_GIB


def _disk_mb_used(hosts: HostTable, rows: Rows) -> NDArray[Any]:
    used: NDArray[Any] = _inventory("total", "DISK_GB", MIB_PER_GIB)(hosts, rows) - _free_disk_mb(hosts, rows)
    return used


def _vcpus_used(hosts: HostTable, rows: Rows) -> NDArray[Any]:
    """Return the number of vCPUs that instances use, plus the reserved vCPUs."""
    used: NDArray[Any] = _inventory("total", "VCPU")(hosts, rows) - hosts.free("VCPU", rows)
    return used


COLUMNS: Mapping[str, Column] = {
    "free_ram_mb": lambda hosts, rows: hosts.free("MEMORY_MB", rows),
    "total_usable_ram_mb": _inventory("total", "MEMORY_MB"),
    "ram_allocation_ratio": _inventory("allocation_ratio", "MEMORY_MB"),
    "free_disk_mb": _free_disk_mb,
    "total_usable_disk_gb": _inventory("total", "DISK_GB"),
    "disk_mb_used": _disk_mb_used,
    "disk_allocation_ratio": _inventory("allocation_ratio", "DISK_GB"),
    "vcpus_total": _inventory("total", "VCPU"),
    "vcpus_used": _vcpus_used,
    "cpu_allocation_ratio": _inventory("allocation_ratio", "VCPU"),
    "num_instances": lambda hosts, rows: hosts.num_instances[rows],
    "num_io_ops": lambda hosts, rows: hosts.num_io_ops[rows],
    "failed_builds": lambda hosts, rows: hosts.failed_builds[rows],
}
"""Attribute → function that returns its values for some rows. Units: MiB (``_mb``), GiB (``_gb``). Shapes: → (N,)."""
