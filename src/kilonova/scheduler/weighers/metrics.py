# SPDX-License-Identifier: Apache-2.0
"""MetricsWeigher: rates hosts by the metrics that they report."""

from typing import ClassVar, Self

import numpy as np

from kilonova.errors import RuleFailed
from kilonova.model.request_spec import RequestSpec
from kilonova.records import dataclass
from kilonova.scheduler.depends_on import DependsOn
from kilonova.scheduler.host_table import FloatArray, HostTable, Rows, pick
from kilonova.scheduler.reads import Reads, names
from kilonova.scheduler.settings import SchedulerConfig, weight_setting
from kilonova.scheduler.weighers.base import ColumnWeigher


@dataclass(frozen=True, slots=True)
class MetricsWeigher(ColumnWeigher):
    """Rate each host by the sum of its metrics, multiplied by their ratios in ``[metrics] weight_setting``.

    If a host does not report a metric and ``required`` is True, the request fails. If ``required`` is False, the rating
    of the host is ``unavailable``, unless the ratio of the metric or the multiplier of the host is 0.

    Shapes: hosts.metrics (H,) each → (N,).
    Raises: RuleFailed, naming the metric in the message and the host in a field.
    Source: spec SCHEDULER §5 #6.
    """

    option: ClassVar[str] = "metrics_weight_multiplier"
    depends_on: ClassVar[DependsOn] = DependsOn.ROWS
    reads: ClassVar[Reads] = Reads(metadata=names("metrics_weight_multiplier"))
    setting: tuple[tuple[str, float], ...] = ()
    required: bool = True
    unavailable: float = -10000.0

    @classmethod
    def configured(cls, config: SchedulerConfig) -> Self:
        return cls(
            multiplier=config.metrics_weight_multiplier,
            setting=weight_setting(config.metrics_weight_setting)[0],
            required=config.metrics_required,
            unavailable=config.metrics_weight_of_unavailable,
        )

    def weigh(self, hosts: HostTable, spec: RequestSpec, rows: Rows) -> FloatArray | None:  # noqa: ARG002
        if not self.setting:
            return None
        chosen = np.arange(len(hosts))[rows]
        values = np.zeros(len(chosen))
        lacking = np.zeros(len(values), dtype=np.bool_)
        for name, ratio in self.setting:
            metric = pick(hosts.metric(name), rows)
            missing = np.isnan(metric)
            if self.required and missing.any():
                row = int(chosen[np.flatnonzero(missing)[0]])
                raise RuleFailed(  # users see the message, so the message names no host
                    f"Weigher MetricsWeigher failed: metric {name} is required and a host does not report it.",
                    rule="MetricsWeigher",
                    host=hosts.hosts[row],
                )
            values += np.where(missing, 0.0, metric) * ratio
            lacking |= missing & (self.factors(hosts, rows) * np.float64(ratio) != 0)
        values[lacking] = self.unavailable
        return values
