# SPDX-License-Identifier: Apache-2.0
"""ImagePropertiesWeigher: prefers hosts whose servers have images with the same properties as the request's image."""

from typing import ClassVar, Self

import numpy as np

from kilonova.model.request_spec import RequestSpec
from kilonova.records import dataclass
from kilonova.scheduler.depends_on import DependsOn
from kilonova.scheduler.guests import guest_kind
from kilonova.scheduler.host_table import FloatArray, HostTable, Rows, pick
from kilonova.scheduler.reads import ALL_KEYS, NOTHING, Reads, names
from kilonova.scheduler.settings import SchedulerConfig, weight_setting
from kilonova.scheduler.weighers.base import ColumnWeigher


@dataclass(frozen=True, slots=True)
class ImagePropertiesWeigher(ColumnWeigher):
    """Rate each host by the number of its instances whose images have the same properties as the request's image.

    The rating is the sum over the properties of the request's image. For each property, the instances whose image has
    the same value are counted. ``setting``: (property, ratio) pairs; if given, each count is multiplied by the ratio of
    the property, and properties without a ratio are ignored. A negative multiplier spreads servers with the same
    properties. If the configured multiplier is 0, which is the default, the weigher is disabled, even if aggregates set
    a multiplier.

    Shapes: hosts.guests → (N,). Source: spec SCHEDULER §5 #13.
    """

    option: ClassVar[str] = "image_props_weight_multiplier"
    depends_on: ClassVar[DependsOn] = DependsOn.ROWS | DependsOn.REQUEST
    multiplier: float = 0.0
    setting: tuple[tuple[str, float], ...] = ()

    @classmethod
    def configured(cls, config: SchedulerConfig) -> Self:
        return cls(
            multiplier=config.image_props_weight_multiplier,
            setting=weight_setting(config.image_props_weight_setting)[0],
        )

    @property
    def reads(self) -> Reads:
        if not self.multiplier:
            return NOTHING
        properties = names(*dict(self.setting)) if self.setting else ALL_KEYS
        return Reads(properties=properties, metadata=names(self.option))

    def factors(self, hosts: HostTable, rows: Rows) -> float | FloatArray:
        return ColumnWeigher.factors(self, hosts, rows) if self.multiplier else 0.0

    def weigh(self, hosts: HostTable, spec: RequestSpec, rows: Rows) -> FloatArray | None:
        ratios = dict(self.setting)
        asked = guest_kind("", spec.image.properties if spec.image else {}).image_properties
        total = np.zeros(len(hosts))
        for name, value in asked:
            ratio = ratios.get(name, 0.0) if ratios else 1.0
            if ratio:
                total += ratio * hosts.guests.with_image_property(name, value)
        return pick(total, rows) if asked else None
