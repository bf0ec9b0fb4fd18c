# SPDX-License-Identifier: Apache-2.0
"""RAMWeigher: prefers hosts with much free memory."""

from typing import ClassVar

from kilonova.model.request_spec import RequestSpec
from kilonova.records import dataclass
from kilonova.scheduler.depends_on import DependsOn
from kilonova.scheduler.host_table import FloatArray, HostTable, Rows
from kilonova.scheduler.reads import Reads, names
from kilonova.scheduler.weighers.base import ColumnWeigher


@dataclass(frozen=True, slots=True)
class RAMWeigher(ColumnWeigher):
    """Prefer hosts with much free memory. The allocation ratio is ignored.

    Shapes: (H,) → (N,). Units: MiB. Source: spec SCHEDULER §5 #1.
    """

    option: ClassVar[str] = "ram_weight_multiplier"
    depends_on: ClassVar[DependsOn] = DependsOn.ROWS
    reads: ClassVar[Reads] = Reads(metadata=names("ram_weight_multiplier"))
    minimum: ClassVar[float | None] = 0.0

    def weigh(self, hosts: HostTable, spec: RequestSpec, rows: Rows) -> FloatArray:  # noqa: ARG002
        return hosts.free("MEMORY_MB", rows).astype(float)
