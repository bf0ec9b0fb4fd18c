# SPDX-License-Identifier: Apache-2.0
"""BuildFailureWeigher: avoids hosts with recent failed builds."""

from typing import ClassVar

from kilonova.model.request_spec import RequestSpec
from kilonova.records import dataclass
from kilonova.scheduler.depends_on import DependsOn
from kilonova.scheduler.host_table import FloatArray, HostTable, Rows, pick
from kilonova.scheduler.reads import Reads, names
from kilonova.scheduler.weighers.base import ColumnWeigher


@dataclass(frozen=True, slots=True)
class BuildFailureWeigher(ColumnWeigher):
    """Prefer hosts with few recent failed builds. Shapes: (H,) → (N,). Source: spec SCHEDULER §5 #9."""

    option: ClassVar[str] = "build_failure_weight_multiplier"
    depends_on: ClassVar[DependsOn] = DependsOn.SHARED
    reads: ClassVar[Reads] = Reads(metadata=names("build_failure_weight_multiplier"))
    negated: ClassVar[bool] = True
    multiplier: float = 1000000.0

    def weigh(self, hosts: HostTable, spec: RequestSpec, rows: Rows) -> FloatArray:  # noqa: ARG002
        return pick(hosts.failed_builds, rows).astype(float)
