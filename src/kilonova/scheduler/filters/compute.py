# SPDX-License-Identifier: Apache-2.0
"""ComputeFilter: hosts whose compute service is enabled and up."""

from typing import ClassVar, Self

import numpy as np

from kilonova.model.request_spec import RequestSpec
from kilonova.records import dataclass
from kilonova.scheduler.depends_on import DependsOn
from kilonova.scheduler.host_table import BoolArray, HostTable
from kilonova.scheduler.reads import NOTHING, Reads
from kilonova.scheduler.settings import SchedulerConfig

#: The difference of two times is rounded, so the verdicts within this time of a change are not foreseen.
_ROUNDING_S = 0.001


@dataclass(frozen=True, slots=True)
class ComputeFilter:
    """Keep hosts that are not disabled, not forced down, and sent a heartbeat within ``service_down_time_s`` seconds.

    Shapes: hosts.disabled, forced_down, last_seen (H,) → (H,) bool.
    Source: spec SCHEDULER §3 #2.
    """

    run_once: ClassVar[bool] = True
    runs_on_rebuild: ClassVar[bool] = False
    depends_on: ClassVar[DependsOn] = DependsOn.TIME
    only_silent_hosts: ClassVar[bool] = True
    reads: ClassVar[Reads] = NOTHING
    service_down_time_s: float = 60
    reason: str = "compute service disabled or down"

    @classmethod
    def configured(cls, config: SchedulerConfig) -> Self:
        return cls(service_down_time_s=config.service_down_time)

    def passes(self, hosts: HostTable, spec: RequestSpec) -> BoolArray:  # noqa: ARG002
        return hosts.heard_within(self.service_down_time_s) & ~(hosts.disabled | hosts.forced_down)

    def unchanged_until(self, hosts: HostTable) -> float:
        """Return the next time at which the verdict on a host changes, if only time passes."""
        silent = hosts.last_seen[np.isfinite(hosts.last_seen)]
        changes = np.concatenate([silent - self.service_down_time_s, silent + self.service_down_time_s]) - _ROUNDING_S
        return float(changes[changes >= hosts.taken_at - 2 * _ROUNDING_S].min(initial=np.inf))
