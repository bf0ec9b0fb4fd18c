# SPDX-License-Identifier: Apache-2.0
"""ExactDiskFilter: hosts whose free disk equals the requested disk."""

from typing import ClassVar

from kilonova.model.request_spec import RequestSpec
from kilonova.records import dataclass
from kilonova.scheduler.depends_on import DependsOn
from kilonova.scheduler.host_attributes import COLUMNS
from kilonova.scheduler.host_table import ALL_ROWS, BoolArray, HostTable
from kilonova.scheduler.overcommit import disk_needed
from kilonova.scheduler.reads import NOTHING, Reads


@dataclass(frozen=True, slots=True)
class ExactDiskFilter:
    """Keep hosts whose free disk equals the flavor's disk, for bare metal. The allocation ratio is ignored.

    Shapes: (H,) → (H,) bool.
    Units:  MiB.
    Source: spec SCHEDULER §4.
    """

    run_once: ClassVar[bool] = False
    only_where_placed: ClassVar[bool] = True
    runs_on_rebuild: ClassVar[bool] = False
    depends_on: ClassVar[DependsOn] = DependsOn.ROWS
    reads: ClassVar[Reads] = NOTHING
    reason: str = "its free disk does not equal the requested disk"

    def passes(self, hosts: HostTable, spec: RequestSpec) -> BoolArray:
        equal: BoolArray = COLUMNS["free_disk_mb"](hosts, ALL_ROWS) == disk_needed(spec.flavor)
        return equal
