# SPDX-License-Identifier: Apache-2.0
"""TransformImageMetadata: hosts that support the device models in the image's properties."""

import logging
from typing import ClassVar

from kilonova.model.device_models import MODEL_PROPERTIES, device_models
from kilonova.model.request_spec import RequestSpec
from kilonova.records import dataclass
from kilonova.scheduler.aggregate_index import AggregateIndex
from kilonova.scheduler.reads import Reads, names

LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class TransformImageMetadata:
    """Require the traits of the architecture and of all device models in the image's properties.

    If one of these values has no standard trait, the image requires no trait at all, as in Nova.

    Source: spec TRAITS §3; SCHEDULER §6 #6.
    """

    name: ClassVar[str] = "transform_image_metadata"
    reason: ClassVar[str] = "lacks a device model that the image requires"
    reads: ClassVar[Reads] = Reads(properties=names(*MODEL_PROPERTIES))

    def apply(self, spec: RequestSpec, aggregates: AggregateIndex) -> RequestSpec:  # noqa: ARG002
        models = device_models(spec.image.properties) if spec.image is not None else ()
        if not models:
            return spec
        for model in models:
            if model.trait is None:
                LOG.error(
                    "[%s] Image property %s=%s has no trait: the image does not restrict the hosts",
                    spec.request_id,
                    *model[:2],
                )
                return spec
        return spec.requiring(*(model.trait for model in models if model.trait is not None))
