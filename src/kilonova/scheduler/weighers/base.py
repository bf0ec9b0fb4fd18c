# SPDX-License-Identifier: Apache-2.0
"""The bases of weighers: on columns, and written Nova's way."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from kilonova.model.request_spec import RequestSpec
from kilonova.scheduler.aggregate_rules import float_factors
from kilonova.scheduler.host_table import FloatArray, HostTable, Rows, pick
from kilonova.scheduler.settings import SchedulerConfig


@dataclass(frozen=True, slots=True)
class ColumnWeigher(ABC):
    """A weigher whose multiplier aggregates may set for their hosts, by a key named like its option.

    ``multiplier``: negative prefers the small instead of the large.
    ``minimum`` / ``maximum``: fixed ends of the scale, see the engine.
    ``negated``: the multiplier, wherever it comes from, counts against the host.
    ``only_where_placed``: placing a server changes the rating of nobody but the host that took it.
    Source: spec SCHEDULER §5.
    """

    option: ClassVar[str]
    minimum: ClassVar[float | None] = None
    maximum: ClassVar[float | None] = None
    negated: ClassVar[bool] = False
    only_where_placed: ClassVar[bool] = True
    multiplier: float = 1.0

    def factors(self, hosts: HostTable, rows: Rows) -> float | FloatArray:
        """Return the multiplier, or one a host when aggregates set it. Shapes: → () or (N,)."""
        found = float_factors(hosts, self.option, self.multiplier)
        chosen = found if isinstance(found, float | int) else pick(found, rows)
        return -chosen if self.negated else chosen

    @classmethod
    def configured(cls, config: SchedulerConfig) -> Self:
        """Return the weigher with the multiplier of its option, or its default when there is no such option."""
        return cls(multiplier=getattr(config, cls.option)) if hasattr(config, cls.option) else cls()

    @abstractmethod
    def weigh(self, hosts: HostTable, spec: RequestSpec, rows: Rows) -> FloatArray | None: ...


@dataclass(slots=True)
class WeighedHost:
    """A host as ``weigh_objects`` gets it: its state, and a weight nobody looks at."""

    obj: Any
    weight: float = 0.0


class BaseHostWeigher:
    """Subclass this and override ``_weigh_object``, to rate host by host as Nova's weighers do.

    ``minval`` / ``maxval``: fixed ends of the scale; None takes the smallest / largest rating of the request.
    """

    minval: float | None = None
    maxval: float | None = None

    def weight_multiplier(self, host_state: Any) -> float:  # noqa: ARG002
        """Return what the scaled rating of this host is multiplied with."""
        return 1.0

    def _weigh_object(self, host_state: Any, weight_properties: Any) -> float:
        """Rate the host; more is more."""
        raise NotImplementedError

    def weigh_objects(self, weighed_obj_list: Sequence[WeighedHost], weight_properties: Any) -> Sequence[float]:
        """Rate hosts together; only what compares them has to override this."""
        return [self._weigh_object(each.obj, weight_properties) for each in weighed_obj_list]
