# SPDX-License-Identifier: Apache-2.0
"""IoOpsWeigher: rates hosts by running io-heavy operations. The default multiplier is negative: fewer are preferred."""

from typing import ClassVar

from kilonova.model.request_spec import RequestSpec
from kilonova.records import dataclass
from kilonova.scheduler.depends_on import DependsOn
from kilonova.scheduler.host_table import FloatArray, HostTable, Rows, pick
from kilonova.scheduler.reads import Reads, names
from kilonova.scheduler.weighers.base import ColumnWeigher


@dataclass(frozen=True, slots=True)
class IoOpsWeigher(ColumnWeigher):
    """Rate hosts by the number of running io-heavy operations. Shapes: (H,) → (N,). Source: spec SCHEDULER §5 #4."""

    option: ClassVar[str] = "io_ops_weight_multiplier"
    depends_on: ClassVar[DependsOn] = DependsOn.ROWS
    reads: ClassVar[Reads] = Reads(metadata=names("io_ops_weight_multiplier"))
    minimum: ClassVar[float | None] = 0.0
    multiplier: float = -1.0

    def weigh(self, hosts: HostTable, spec: RequestSpec, rows: Rows) -> FloatArray:  # noqa: ARG002
        return pick(hosts.num_io_ops, rows).astype(float)
