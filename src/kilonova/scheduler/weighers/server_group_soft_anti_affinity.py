# SPDX-License-Identifier: Apache-2.0
"""ServerGroupSoftAntiAffinityWeigher: prefers hosts without other members of the server group."""

from typing import ClassVar

from kilonova.model.request_spec import RequestSpec
from kilonova.records import dataclass
from kilonova.scheduler.depends_on import DependsOn
from kilonova.scheduler.host_table import FloatArray, HostTable, Rows
from kilonova.scheduler.reads import Reads, names
from kilonova.scheduler.weighers.base import ColumnWeigher
from kilonova.scheduler.weighers.server_group_soft_affinity import members_on


@dataclass(frozen=True, slots=True)
class ServerGroupSoftAntiAffinityWeigher(ColumnWeigher):
    """Prefer hosts with few members of a soft-anti-affinity group.

    Shapes: (H,) → (N,). Source: spec SCHEDULER §5 #8.
    """

    option: ClassVar[str] = "soft_anti_affinity_weight_multiplier"
    depends_on: ClassVar[DependsOn] = DependsOn.NAMES
    reads: ClassVar[Reads] = Reads(metadata=names("soft_anti_affinity_weight_multiplier"))

    def weigh(self, hosts: HostTable, spec: RequestSpec, rows: Rows) -> FloatArray | None:
        members = members_on(hosts, spec, rows, "soft-anti-affinity")
        return None if members is None else -members
