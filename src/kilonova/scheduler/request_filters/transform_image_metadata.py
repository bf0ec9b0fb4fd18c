# SPDX-License-Identifier: Apache-2.0
"""TransformImageMetadata: hosts that support the device models in the image's properties."""

import logging
from dataclasses import dataclass
from typing import ClassVar

from kilonova.model.device_models import MODEL_PROPERTIES, device_models
from kilonova.model.request_spec import RequestSpec
from kilonova.scheduler.host_table import AggregateIndex
from kilonova.scheduler.reads import Reads, names

LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class TransformImageMetadata:
    """Require the traits of all device models and the architecture in the image's properties.

    If one value has no standard trait, no trait is required for the image, as in Nova.

    Source: spec TRAITS §3; SCHEDULER §6 #6.
    """

    name: ClassVar[str] = "transform_image_metadata"
    reason: ClassVar[str] = "lacks a device model that the image asks for"
    reads: ClassVar[Reads] = Reads(properties=names(*MODEL_PROPERTIES))

    def apply(self, spec: RequestSpec, aggregates: AggregateIndex) -> RequestSpec:  # noqa: ARG002
        models = device_models(spec.image.properties) if spec.image is not None else ()
        if not models:
            return spec
        for model in models:
            if model.trait is None:
                LOG.error("[%s] no trait for %s=%s: the image is not restricted", spec.request_id, *model[:2])
                return spec
        return spec.requiring(*(model.trait for model in models if model.trait is not None))
