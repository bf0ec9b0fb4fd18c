# SPDX-License-Identifier: Apache-2.0
"""Base classes of column weighers and of Nova-style weighers."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, Self

from kilonova.model.request_spec import RequestSpec
from kilonova.records import dataclass
from kilonova.scheduler.aggregate_rules import float_factors
from kilonova.scheduler.host_table import FloatArray, HostTable, Rows, pick
from kilonova.scheduler.settings import SchedulerConfig


@dataclass(frozen=True, slots=True)
class ColumnWeigher(ABC):
    """Base class of built-in weighers.

    ``option``: name of the configuration option with the multiplier. An aggregate with a metadata key of this name
    overrides the multiplier for its hosts.
    ``multiplier``: a negative value prefers low ratings.
    ``minimum`` / ``maximum``: fixed bounds for scaling; None uses the smallest / largest rating.
    ``negated``: if True, the sign of the multiplier is inverted, whether the option or an aggregate sets it.
    ``only_where_placed``: placing a server changes the rating of the chosen host only.
    Source: spec SCHEDULER §5.
    """

    option: ClassVar[str]
    minimum: ClassVar[float | None] = None
    maximum: ClassVar[float | None] = None
    negated: ClassVar[bool] = False
    only_where_placed: ClassVar[bool] = True
    multiplier: float = 1.0

    def factors(self, hosts: HostTable, rows: Rows) -> float | FloatArray:
        """Return one multiplier for all hosts, or one per host if aggregates set multipliers. Shapes: → () or (N,)."""
        found = float_factors(hosts, self.option, self.multiplier)
        chosen = found if isinstance(found, float | int) else pick(found, rows)
        return -chosen if self.negated else chosen

    @classmethod
    def configured(cls, config: SchedulerConfig) -> Self:
        """Return the weigher with the configured multiplier, or with its default multiplier if it has no option."""
        return cls(multiplier=getattr(config, cls.option)) if hasattr(config, cls.option) else cls()

    @abstractmethod
    def weigh(self, hosts: HostTable, spec: RequestSpec, rows: Rows) -> FloatArray | None: ...


@dataclass(slots=True)
class WeighedHost:
    """A host in the argument of ``weigh_objects``: ``obj`` is the HostState, ``weight`` is not used."""

    obj: Any
    weight: float = 0.0


class BaseHostWeigher:
    """Base class of Nova-style weighers, which rate host by host. Override ``_weigh_object``.

    ``minval`` / ``maxval``: fixed bounds for scaling; None uses the smallest / largest rating among the hosts.
    """

    minval: float | None = None
    maxval: float | None = None

    def weight_multiplier(self, host_state: Any) -> float:  # noqa: ARG002
        """Return the multiplier of this host's scaled rating."""
        return 1.0

    def _weigh_object(self, host_state: Any, weight_properties: Any) -> float:
        """Return the rating of the host; higher is better."""
        raise NotImplementedError

    def weigh_objects(self, weighed_obj_list: Sequence[WeighedHost], weight_properties: Any) -> Sequence[float]:
        """Return the ratings of several hosts. Override this method if a host's rating depends on the other hosts."""
        return [self._weigh_object(each.obj, weight_properties) for each in weighed_obj_list]
