# SPDX-License-Identifier: Apache-2.0
"""RequireImageTypeSupport: hosts that support the image's disk format."""

import logging
from typing import ClassVar

from kilonova.model.device_models import STANDARD_TRAITS
from kilonova.model.request_spec import RequestSpec
from kilonova.records import dataclass
from kilonova.scheduler.aggregate_index import AggregateIndex
from kilonova.scheduler.reads import NOTHING, Reads

LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RequireImageTypeSupport:
    """Require the trait COMPUTE_IMAGE_TYPE_* of the image's disk format. For a format without a trait, require nothing.

    Nothing is required for servers that boot from a volume, because the host does not use the image.

    Source: spec SCHEDULER §6 #3.
    """

    name: ClassVar[str] = "require_image_type_support"
    reason: ClassVar[str] = "cannot use the image's disk format"
    reads: ClassVar[Reads] = NOTHING

    def apply(self, spec: RequestSpec, aggregates: AggregateIndex) -> RequestSpec:  # noqa: ARG002
        if spec.image is None or spec.volume_backed:
            return spec
        trait = f"COMPUTE_IMAGE_TYPE_{spec.image.disk_format.upper()}"
        if trait not in STANDARD_TRAITS:
            LOG.error(
                "[%s] Disk format %s has no trait: the image's format does not restrict the hosts",
                spec.request_id,
                spec.image.disk_format,
            )
            return spec
        return spec.requiring(trait)
