# SPDX-License-Identifier: Apache-2.0
"""DiskFilter: hosts with enough free disk under their allocation ratio."""

from typing import ClassVar

from kilonova.model.request_spec import RequestSpec
from kilonova.records import dataclass
from kilonova.scheduler.depends_on import DependsOn
from kilonova.scheduler.host_table import BoolArray, HostTable
from kilonova.scheduler.overcommit import disk_suffices, own_ratio
from kilonova.scheduler.reads import NOTHING, Reads


@dataclass(frozen=True, slots=True)
class DiskFilter:
    """Keep hosts with enough free disk for the flavor: ``total x allocation ratio - used``.

    The filter is redundant, because Placement enforces the same limit with the same allocation ratio; it exists for old
    configurations that name it.

    Shapes: (H,) → (H,) bool.
    Units:  MiB.
    Source: spec SCHEDULER §4.
    """

    run_once: ClassVar[bool] = False
    only_where_placed: ClassVar[bool] = True
    runs_on_rebuild: ClassVar[bool] = False
    depends_on: ClassVar[DependsOn] = DependsOn.ROWS
    reads: ClassVar[Reads] = NOTHING
    reason: str = "too little free disk"

    def passes(self, hosts: HostTable, spec: RequestSpec) -> BoolArray:
        return disk_suffices(hosts, own_ratio(hosts, "disk_allocation_ratio"), spec.flavor)
