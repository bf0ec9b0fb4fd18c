# SPDX-License-Identifier: Apache-2.0
"""NumInstancesWeigher: rates hosts by their number of instances. The default multiplier 0 disables the weigher."""

from typing import ClassVar

from kilonova.model.request_spec import RequestSpec
from kilonova.records import dataclass
from kilonova.scheduler.depends_on import DependsOn
from kilonova.scheduler.host_table import FloatArray, HostTable, Rows, pick
from kilonova.scheduler.reads import Reads, names
from kilonova.scheduler.weighers.base import ColumnWeigher


@dataclass(frozen=True, slots=True)
class NumInstancesWeigher(ColumnWeigher):
    """Rate hosts by their number of instances. Shapes: (H,) → (N,). Source: spec SCHEDULER §5 #12."""

    option: ClassVar[str] = "num_instances_weight_multiplier"
    depends_on: ClassVar[DependsOn] = DependsOn.ROWS
    reads: ClassVar[Reads] = Reads(metadata=names("num_instances_weight_multiplier"))
    multiplier: float = 0.0

    def weigh(self, hosts: HostTable, spec: RequestSpec, rows: Rows) -> FloatArray:  # noqa: ARG002
        return pick(hosts.num_instances, rows).astype(float)
