# SPDX-License-Identifier: Apache-2.0
"""NumInstancesFilter: hosts with fewer instances than a limit."""

from typing import ClassVar, Self

from kilonova.model.request_spec import RequestSpec
from kilonova.records import dataclass
from kilonova.scheduler.depends_on import DependsOn
from kilonova.scheduler.host_table import BoolArray, HostTable
from kilonova.scheduler.reads import NOTHING, Reads
from kilonova.scheduler.settings import SchedulerConfig


@dataclass(frozen=True, slots=True)
class NumInstancesFilter:
    """Keep hosts with fewer instances than ``max_instances_per_host``; 0 excludes every host.

    Shapes: hosts.num_instances (H,) → (H,) bool.
    Units:  instances on the host.
    Source: spec SCHEDULER §3 #15.
    """

    run_once: ClassVar[bool] = False
    only_where_placed: ClassVar[bool] = True
    runs_on_rebuild: ClassVar[bool] = False
    depends_on: ClassVar[DependsOn] = DependsOn.ROWS
    reads: ClassVar[Reads] = NOTHING
    max_instances_per_host: int = 50
    reason: str = "has reached max_instances_per_host"

    @classmethod
    def configured(cls, config: SchedulerConfig) -> Self:
        return cls(max_instances_per_host=config.max_instances_per_host)

    def passes(self, hosts: HostTable, spec: RequestSpec) -> BoolArray:  # noqa: ARG002
        return hosts.num_instances < self.max_instances_per_host
