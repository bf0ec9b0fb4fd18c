# SPDX-License-Identifier: Apache-2.0
"""CPUWeigher: prefers hosts with many free cores."""

from typing import ClassVar

import numpy as np

from kilonova.model.request_spec import RequestSpec
from kilonova.records import dataclass
from kilonova.scheduler.depends_on import DependsOn
from kilonova.scheduler.host_table import FloatArray, HostTable, Rows, difference
from kilonova.scheduler.reads import Reads, names
from kilonova.scheduler.weighers.base import ColumnWeigher


@dataclass(frozen=True, slots=True)
class CPUWeigher(ColumnWeigher):
    """Prefer hosts with many free cores: ``total x allocation ratio - reserved - used``. Shapes: (H,) → (N,).

    Source: spec SCHEDULER §5 #2.
    """

    option: ClassVar[str] = "cpu_weight_multiplier"
    depends_on: ClassVar[DependsOn] = DependsOn.ROWS
    reads: ClassVar[Reads] = Reads(metadata=names("cpu_weight_multiplier"))
    minimum: ClassVar[float | None] = 0.0

    def weigh(self, hosts: HostTable, spec: RequestSpec, rows: Rows) -> FloatArray | None:  # noqa: ARG002
        column = hosts.column("VCPU")
        if column is None:
            return None
        offered: FloatArray = hosts.memo.get(
            CPUWeigher,
            lambda: np.multiply(hosts.total[:, column], hosts.allocation_ratio[:, column]) - hosts.reserved[:, column],
        )
        return difference(offered, hosts.used[:, column], rows)
