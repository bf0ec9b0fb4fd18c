# SPDX-License-Identifier: Apache-2.0
"""AggregateNumInstancesFilter: hosts with fewer instances than the limit that their aggregates set."""

from typing import ClassVar, Self

from kilonova.model.request_spec import RequestSpec
from kilonova.records import dataclass
from kilonova.scheduler.aggregate_rules import integer_limits
from kilonova.scheduler.depends_on import DependsOn
from kilonova.scheduler.host_table import BoolArray, HostTable
from kilonova.scheduler.reads import Reads, names
from kilonova.scheduler.settings import SchedulerConfig


@dataclass(frozen=True, slots=True)
class AggregateNumInstancesFilter:
    """Keep hosts with fewer instances than the smallest ``max_instances_per_host`` of their aggregates.

    If no aggregate of a host has this key, or a value is not an integer, the option ``max_instances_per_host`` is used.

    Shapes: hosts.num_instances (H,) → (H,) bool.
    Units:  instances on the host.
    Source: spec SCHEDULER §3 #16.
    """

    run_once: ClassVar[bool] = False
    only_where_placed: ClassVar[bool] = True
    runs_on_rebuild: ClassVar[bool] = False
    depends_on: ClassVar[DependsOn] = DependsOn.ROWS
    reads: ClassVar[Reads] = Reads(metadata=names("max_instances_per_host"))
    max_instances_per_host: int = 50
    reason: str = "has reached the max_instances_per_host of its aggregates"

    @classmethod
    def configured(cls, config: SchedulerConfig) -> Self:
        return cls(max_instances_per_host=config.max_instances_per_host)

    def passes(self, hosts: HostTable, spec: RequestSpec) -> BoolArray:  # noqa: ARG002
        return hosts.num_instances < integer_limits(hosts, "max_instances_per_host", self.max_instances_per_host)
