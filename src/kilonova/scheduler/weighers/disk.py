# SPDX-License-Identifier: Apache-2.0
"""DiskWeigher: prefers hosts with much free disk."""

from typing import ClassVar

from kilonova.model.request_spec import RequestSpec
from kilonova.records import dataclass
from kilonova.scheduler.depends_on import DependsOn
from kilonova.scheduler.host_table import FloatArray, HostTable, Rows
from kilonova.scheduler.reads import Reads, names
from kilonova.scheduler.weighers.base import ColumnWeigher


@dataclass(frozen=True, slots=True)
class DiskWeigher(ColumnWeigher):
    """Prefer hosts with much free disk. The allocation ratio is ignored.

    Shapes: (H,) → (N,). Units: GiB. Source: spec SCHEDULER §5 #3.
    """

    option: ClassVar[str] = "disk_weight_multiplier"
    depends_on: ClassVar[DependsOn] = DependsOn.ROWS
    reads: ClassVar[Reads] = Reads(metadata=names("disk_weight_multiplier"))
    minimum: ClassVar[float | None] = 0.0

    def weigh(self, hosts: HostTable, spec: RequestSpec, rows: Rows) -> FloatArray:  # noqa: ARG002
        return hosts.free("DISK_GB", rows).astype(float)
