# SPDX-License-Identifier: Apache-2.0
"""AggregateCoreFilter: hosts with enough free cores under the allocation ratio of their aggregates."""

from typing import ClassVar

from kilonova.model.request_spec import RequestSpec
from kilonova.records import dataclass
from kilonova.scheduler.depends_on import DependsOn
from kilonova.scheduler.host_table import BoolArray, HostTable
from kilonova.scheduler.overcommit import aggregate_ratio, cores_suffice
from kilonova.scheduler.reads import Reads, names


@dataclass(frozen=True, slots=True)
class AggregateCoreFilter:
    """Keep hosts with enough free cores for the flavor: ``total x ratio - used``, with the ratio of their aggregates.

    The ratio is the smallest ``cpu_allocation_ratio`` in the metadata of the host's aggregates. If no aggregate has the
    key, or a value is not a number, the ratio of the inventory is used. Placement always applies the ratio of the
    inventory, so an aggregate can only reduce the usable cores. A host that reports no cores passes.

    Shapes: (H,) → (H,) bool.
    Units:  cores.
    Source: spec SCHEDULER §4.
    """

    run_once: ClassVar[bool] = False
    only_where_placed: ClassVar[bool] = True
    runs_on_rebuild: ClassVar[bool] = False
    depends_on: ClassVar[DependsOn] = DependsOn.ROWS
    reads: ClassVar[Reads] = Reads(metadata=names("cpu_allocation_ratio"))
    reason: str = "too few free cores under the allocation ratio of its aggregates"

    def passes(self, hosts: HostTable, spec: RequestSpec) -> BoolArray:
        return cores_suffice(hosts, aggregate_ratio(hosts, "cpu_allocation_ratio"), spec.flavor)
