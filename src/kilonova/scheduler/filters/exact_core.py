# SPDX-License-Identifier: Apache-2.0
"""ExactCoreFilter: hosts whose free cores equal the requested cores."""

from typing import ClassVar

from kilonova.model.request_spec import RequestSpec
from kilonova.records import dataclass
from kilonova.scheduler.depends_on import DependsOn
from kilonova.scheduler.host_attributes import COLUMNS
from kilonova.scheduler.host_table import ALL_ROWS, BoolArray, HostTable
from kilonova.scheduler.reads import NOTHING, Reads


@dataclass(frozen=True, slots=True)
class ExactCoreFilter:
    """Keep hosts whose free cores equal the flavor's vCPUs, for bare metal. The allocation ratio is ignored.

    Shapes: (H,) → (H,) bool.
    Units:  cores.
    Source: spec SCHEDULER §4.
    """

    run_once: ClassVar[bool] = False
    only_where_placed: ClassVar[bool] = True
    runs_on_rebuild: ClassVar[bool] = False
    depends_on: ClassVar[DependsOn] = DependsOn.ROWS
    reads: ClassVar[Reads] = NOTHING
    reason: str = "its free cores do not equal the requested cores"

    def passes(self, hosts: HostTable, spec: RequestSpec) -> BoolArray:
        free = COLUMNS["vcpus_total"](hosts, ALL_ROWS) - COLUMNS["vcpus_used"](hosts, ALL_ROWS)
        equal: BoolArray = free == spec.flavor.vcpus
        return equal
