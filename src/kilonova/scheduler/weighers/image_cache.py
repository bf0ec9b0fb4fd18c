# SPDX-License-Identifier: Apache-2.0
"""ImageCacheWeigher: prefers hosts that have the image in their cache."""

from typing import ClassVar

from kilonova.model.cached_image import image_metric
from kilonova.model.request_spec import RequestSpec
from kilonova.records import dataclass
from kilonova.scheduler.depends_on import DependsOn
from kilonova.scheduler.host_table import FloatArray, HostTable, Rows, pick
from kilonova.scheduler.reads import NOTHING, Reads, names
from kilonova.scheduler.weighers.base import ColumnWeigher


@dataclass(frozen=True, slots=True)
class ImageCacheWeigher(ColumnWeigher):
    """Rate a host with 1 if its image cache has the request's image, otherwise with 0. Nova has no such weigher.

    Hosts report cached images if ``[image_cache] report_images`` is set. If the configured multiplier is 0, which is
    the default, the weigher is disabled, even if aggregates set a multiplier.

    Shapes: hosts.metrics (H,) → (N,).
    """

    option: ClassVar[str] = "image_cache_weight_multiplier"
    depends_on: ClassVar[DependsOn] = DependsOn.ROWS | DependsOn.REQUEST
    multiplier: float = 0.0

    @property
    def reads(self) -> Reads:
        return Reads(metadata=names(self.option)) if self.multiplier else NOTHING

    def factors(self, hosts: HostTable, rows: Rows) -> float | FloatArray:
        return ColumnWeigher.factors(self, hosts, rows) if self.multiplier else 0.0

    def weigh(self, hosts: HostTable, spec: RequestSpec, rows: Rows) -> FloatArray | None:
        if spec.image is None:
            return None
        kept = pick(hosts.metric(image_metric(spec.image.id)), rows)
        return (kept > 0).astype(float)
