# SPDX-License-Identifier: Apache-2.0
"""AggregateImagePropertiesIsolation: hosts whose aggregate metadata does not contradict the image's properties."""

from typing import ClassVar, Self

import numpy as np

from kilonova.model.image_properties import image_property, image_property_names
from kilonova.model.request_spec import RequestSpec
from kilonova.records import dataclass
from kilonova.scheduler.aggregate_rules import if_concerned, split
from kilonova.scheduler.depends_on import DependsOn
from kilonova.scheduler.host_table import BoolArray, HostTable
from kilonova.scheduler.reads import Elsewhere, Keys, Reads
from kilonova.scheduler.settings import SchedulerConfig


@dataclass(frozen=True, slots=True)
class AggregateImagePropertiesIsolation:
    """Keep hosts whose aggregates have no metadata that contradicts a property of the image.

    If a metadata key of the host's aggregates is also an image property, the property must equal one of the values that
    the aggregates have for the key; comma lists are split. Keys that the image lacks are ignored. With ``namespace``,
    only keys that start with namespace and separator are tested; the image property has the same full name as the key.
    Non-standard image properties are tested as well.

    Shapes: for each property, one test per aggregate (A,), combined by OR for each host → (H,) bool.
    Source: spec SCHEDULER §3 #10, §14.4.
    """

    run_once: ClassVar[bool] = True
    runs_on_rebuild: ClassVar[bool] = True
    depends_on: ClassVar[DependsOn] = DependsOn.SHARED
    namespace: str | None = None
    separator: str = "."
    reason: str = "its aggregates require other values of image properties"

    @classmethod
    def configured(cls, config: SchedulerConfig) -> Self:
        return cls(
            namespace=config.aggregate_image_properties_isolation_namespace,
            separator=config.aggregate_image_properties_isolation_separator,
        )

    @property
    def reads(self) -> Reads:
        return Reads(
            properties=Keys(elsewhere=(Elsewhere.METADATA,), beginning=self._prefix),
            metadata=Keys(elsewhere=(Elsewhere.IMAGE_PROPERTIES,), beginning=self._prefix),
        )

    @property
    def _prefix(self) -> str:
        return f"{self.namespace}{self.separator}" if self.namespace else ""

    def passes(self, hosts: HostTable, spec: RequestSpec) -> BoolArray:
        keys: frozenset[str] = hosts.memo.get(
            "aggregate keys", lambda: frozenset(key for each in hosts.aggregates.aggregates for key in each.metadata)
        )
        asked = tuple(
            (key, value)
            for key in sorted(keys & image_property_names(spec.image))
            if key.startswith(self._prefix) and (value := image_property(spec.image, key)) is not None
        )
        if not asked:
            return hosts.all_hosts

        def verdicts() -> BoolArray:
            masks = [_agreeing(hosts, key, value) for key, value in asked]
            combined: BoolArray = np.logical_and.reduce(masks)
            return combined

        return hosts.memo.get((AggregateImagePropertiesIsolation, asked), verdicts)


def _agreeing(hosts: HostTable, key: str, value: str) -> BoolArray:
    return if_concerned(
        hosts,
        lambda aggregate: key in aggregate.metadata,
        lambda aggregate: value in split(aggregate.metadata.get(key, "")),
    )
