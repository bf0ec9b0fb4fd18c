# SPDX-License-Identifier: Apache-2.0
"""AggregateTypeAffinityFilter: reserves aggregates for the flavors in their metadata."""

from typing import ClassVar

from kilonova.model.request_spec import RequestSpec
from kilonova.records import dataclass
from kilonova.scheduler.aggregate_rules import if_concerned, split
from kilonova.scheduler.depends_on import DependsOn
from kilonova.scheduler.host_table import BoolArray, HostTable
from kilonova.scheduler.reads import Reads, names

KEY = "instance_type"


@dataclass(frozen=True, slots=True)
class AggregateTypeAffinityFilter:
    """Keep a host if its aggregates have no ``instance_type`` key, or if the key lists the flavor's name.

    Shapes: one test per aggregate (A,), combined by OR for each host → (H,) bool.
    Source: spec SCHEDULER §3 #17.
    """

    run_once: ClassVar[bool] = True
    runs_on_rebuild: ClassVar[bool] = False
    depends_on: ClassVar[DependsOn] = DependsOn.SHARED
    reads: ClassVar[Reads] = Reads(metadata=names(KEY))
    reason: str = "its aggregates are reserved for other flavors"

    def passes(self, hosts: HostTable, spec: RequestSpec) -> BoolArray:
        name = spec.flavor.name
        return hosts.memo.get(
            (AggregateTypeAffinityFilter, name),
            lambda: if_concerned(
                hosts,
                lambda aggregate: KEY in aggregate.metadata,
                lambda aggregate: name in split(aggregate.metadata.get(KEY, "")),
            ),
        )
