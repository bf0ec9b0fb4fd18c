# SPDX-License-Identifier: Apache-2.0
"""Adapters of third-party rules: they add defaults for the optional attributes of the rule protocols."""

from typing import Any

from kilonova.errors import RequestFilterFailed, RuleFailed
from kilonova.model.request_spec import RequestSpec
from kilonova.records import dataclass
from kilonova.scheduler.aggregate_index import AggregateIndex
from kilonova.scheduler.aggregate_rules import float_factors
from kilonova.scheduler.depends_on import DependsOn, dependence_of
from kilonova.scheduler.host_table import BoolArray, FloatArray, HostTable, Rows, pick
from kilonova.scheduler.reads import Reads, reads_of


@dataclass(frozen=True, slots=True)
class PlugInFilter:
    """A third-party filter with ``passes(hosts, spec)``; all other attributes of the filter are optional."""

    name: str
    rule: Any

    @property
    def reads(self) -> Reads | None:
        return reads_of(self.rule)

    @property
    def depends_on(self) -> DependsOn | None:
        return dependence_of(self.rule)

    @property
    def reason(self) -> str:
        return str(getattr(self.rule, "reason", "the filter rejects this host"))

    @property
    def run_once(self) -> bool:
        return bool(getattr(self.rule, "run_once", False))

    @property
    def runs_on_rebuild(self) -> bool:
        return bool(getattr(self.rule, "runs_on_rebuild", False))

    @property
    def only_where_placed(self) -> bool:
        return bool(getattr(self.rule, "only_where_placed", False))

    @property
    def only_silent_hosts(self) -> bool:
        return bool(getattr(self.rule, "only_silent_hosts", False))

    def unchanged_until(self, hosts: HostTable) -> float:
        return float(self.rule.unchanged_until(hosts))

    def passes(self, hosts: HostTable, spec: RequestSpec) -> BoolArray:
        mask: BoolArray = self.rule.passes(hosts, spec)
        return mask


@dataclass(frozen=True, slots=True)
class PlugInWeigher:
    """A third-party weigher with ``weigh(hosts, spec, rows)``.

    The multiplier is the weigher's ``multiplier`` (default 1). If the weigher has an attribute ``option``, the metadata
    key of that name overrides the multiplier for the hosts of aggregates with this key.
    """

    name: str
    rule: Any

    @property
    def reads(self) -> Reads | None:
        return reads_of(self.rule)

    @property
    def depends_on(self) -> DependsOn | None:
        return dependence_of(self.rule)

    @property
    def minimum(self) -> float | None:
        return getattr(self.rule, "minimum", None)

    @property
    def maximum(self) -> float | None:
        return getattr(self.rule, "maximum", None)

    @property
    def only_where_placed(self) -> bool:
        return bool(getattr(self.rule, "only_where_placed", False))

    def factors(self, hosts: HostTable, rows: Rows) -> float | FloatArray:
        if hasattr(self.rule, "factors"):
            own: float | FloatArray = self.rule.factors(hosts, rows)
            return own
        multiplier = float(getattr(self.rule, "multiplier", 1.0))
        if not hasattr(self.rule, "option"):
            return multiplier
        found = float_factors(hosts, self.rule.option, multiplier)
        return found if isinstance(found, float | int) else pick(found, rows)

    def weigh(self, hosts: HostTable, spec: RequestSpec, rows: Rows) -> FloatArray | None:
        rating: FloatArray | None = self.rule.weigh(hosts, spec, rows)
        return rating


@dataclass(frozen=True, slots=True)
class PlugInRequestFilter:
    """A third-party request filter with ``apply(spec, aggregates)``.

    Raises: RuleFailed, if ``apply`` raises an exception or does not return a request.
    """

    name: str
    rule: Any

    @property
    def reads(self) -> Reads | None:
        return reads_of(self.rule)

    @property
    def depends_on(self) -> DependsOn | None:
        return dependence_of(self.rule)

    @property
    def reason(self) -> str:
        return str(getattr(self.rule, "reason", "does not meet the conditions of the request filter"))

    def apply(self, spec: RequestSpec, aggregates: AggregateIndex) -> RequestSpec:
        try:
            asked = self.rule.apply(spec, aggregates)
        except RequestFilterFailed:
            raise
        except Exception as error:  # third-party code may raise any exception
            raise RuleFailed(f"Request filter {self.name} failed.", rule=self.name) from error
        if not isinstance(asked, RequestSpec):
            raise RuleFailed(
                f"Request filter {self.name} failed: it returned {type(asked).__name__}, not a request.", rule=self.name
            )
        return asked
