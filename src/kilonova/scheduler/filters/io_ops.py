# SPDX-License-Identifier: Apache-2.0
"""IoOpsFilter: hosts with fewer running io-heavy operations than a limit."""

from typing import ClassVar, Self

from kilonova.model.request_spec import RequestSpec
from kilonova.records import dataclass
from kilonova.scheduler.depends_on import DependsOn
from kilonova.scheduler.host_table import BoolArray, HostTable
from kilonova.scheduler.reads import NOTHING, Reads
from kilonova.scheduler.settings import SchedulerConfig


@dataclass(frozen=True, slots=True)
class IoOpsFilter:
    """Keep hosts with fewer running io-heavy operations than ``max_io_ops_per_host``; 0 excludes every host.

    Shapes: hosts.num_io_ops (H,) → (H,) bool.
    Units:  running io-heavy operations on the host.
    Source: spec SCHEDULER §3 #13.
    """

    run_once: ClassVar[bool] = False
    only_where_placed: ClassVar[bool] = True
    runs_on_rebuild: ClassVar[bool] = False
    depends_on: ClassVar[DependsOn] = DependsOn.ROWS
    reads: ClassVar[Reads] = NOTHING
    max_io_ops_per_host: int = 8
    reason: str = "has reached max_io_ops_per_host"

    @classmethod
    def configured(cls, config: SchedulerConfig) -> Self:
        return cls(max_io_ops_per_host=config.max_io_ops_per_host)

    def passes(self, hosts: HostTable, spec: RequestSpec) -> BoolArray:  # noqa: ARG002
        return hosts.num_io_ops < self.max_io_ops_per_host
