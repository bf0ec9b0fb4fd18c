# SPDX-License-Identifier: Apache-2.0
"""ExactRamFilter: hosts whose free memory equals the requested memory."""

from typing import ClassVar

from kilonova.model.request_spec import RequestSpec
from kilonova.records import dataclass
from kilonova.scheduler.depends_on import DependsOn
from kilonova.scheduler.host_attributes import COLUMNS
from kilonova.scheduler.host_table import ALL_ROWS, BoolArray, HostTable
from kilonova.scheduler.reads import NOTHING, Reads


@dataclass(frozen=True, slots=True)
class ExactRamFilter:
    """Keep hosts whose free memory equals the flavor's memory, for bare metal. The allocation ratio is ignored.

    Shapes: (H,) → (H,) bool.
    Units:  MiB.
    Source: spec SCHEDULER §4.
    """

    run_once: ClassVar[bool] = False
    only_where_placed: ClassVar[bool] = True
    runs_on_rebuild: ClassVar[bool] = False
    depends_on: ClassVar[DependsOn] = DependsOn.ROWS
    reads: ClassVar[Reads] = NOTHING
    reason: str = "its free memory does not equal the requested memory"

    def passes(self, hosts: HostTable, spec: RequestSpec) -> BoolArray:
        equal: BoolArray = COLUMNS["free_ram_mb"](hosts, ALL_ROWS) == spec.flavor.memory_mib
        return equal
