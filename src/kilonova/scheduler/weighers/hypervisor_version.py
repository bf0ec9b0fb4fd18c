# SPDX-License-Identifier: Apache-2.0
"""HypervisorVersionWeigher: prefers hosts with newer hypervisor versions."""

from typing import ClassVar

import numpy as np

from kilonova.model.request_spec import RequestSpec
from kilonova.records import dataclass
from kilonova.scheduler.depends_on import DependsOn
from kilonova.scheduler.host_table import FloatArray, HostTable, Rows, pick
from kilonova.scheduler.reads import Reads, names
from kilonova.scheduler.weighers.base import ColumnWeigher


@dataclass(frozen=True, slots=True)
class HypervisorVersionWeigher(ColumnWeigher):
    """Prefer hosts with newer hypervisor versions. Shapes: (H,) → (N,). Source: spec SCHEDULER §5 #11."""

    option: ClassVar[str] = "hypervisor_version_weight_multiplier"
    depends_on: ClassVar[DependsOn] = DependsOn.SHARED
    reads: ClassVar[Reads] = Reads(metadata=names("hypervisor_version_weight_multiplier"))

    def weigh(self, hosts: HostTable, spec: RequestSpec, rows: Rows) -> FloatArray | None:  # noqa: ARG002
        def versions() -> FloatArray | None:
            each = np.array([profile.hypervisor_version for profile in hosts.profiles], dtype=float)
            return each[hosts.profile] if np.unique(each).size > 1 else None

        known: FloatArray | None = hosts.memo.get(HypervisorVersionWeigher, versions)
        return None if known is None else pick(known, rows)
