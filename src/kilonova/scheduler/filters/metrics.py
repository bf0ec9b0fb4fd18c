# SPDX-License-Identifier: Apache-2.0
"""MetricsFilter: hosts that report every metric that MetricsWeigher uses."""

from typing import ClassVar, Self

import numpy as np

from kilonova.model.request_spec import RequestSpec
from kilonova.records import dataclass
from kilonova.scheduler.depends_on import DependsOn
from kilonova.scheduler.host_table import BoolArray, HostTable
from kilonova.scheduler.reads import NOTHING, Reads
from kilonova.scheduler.settings import SchedulerConfig, weight_setting


@dataclass(frozen=True, slots=True)
class MetricsFilter:
    """Keep hosts that report all metrics in ``[metrics] weight_setting``, so that MetricsWeigher finds every metric.

    Shapes: hosts.metrics (H,) each → (H,) bool.
    Source: spec SCHEDULER §3 #20.
    """

    run_once: ClassVar[bool] = False
    only_where_placed: ClassVar[bool] = True
    runs_on_rebuild: ClassVar[bool] = False
    depends_on: ClassVar[DependsOn] = DependsOn.ROWS
    reads: ClassVar[Reads] = NOTHING
    names: frozenset[str] = frozenset()
    reason: str = "does not report a metric of [metrics] weight_setting"

    @classmethod
    def configured(cls, config: SchedulerConfig) -> Self:
        return cls(names=frozenset(name for name, _ in weight_setting(config.metrics_weight_setting)[0]))

    def passes(self, hosts: HostTable, spec: RequestSpec) -> BoolArray:  # noqa: ARG002
        passed = hosts.all_hosts
        for name in sorted(self.names):
            passed = passed & ~np.isnan(hosts.metric(name))
        return passed
