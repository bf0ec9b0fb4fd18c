# SPDX-License-Identifier: Apache-2.0
"""VirtioSoundFilter: hosts that support virtio sound devices, if requested."""

from typing import ClassVar

from kilonova.model.request_spec import RequestSpec
from kilonova.records import dataclass
from kilonova.scheduler.aggregate_index import AggregateIndex
from kilonova.scheduler.guest_options import guest_option, guest_option_reads
from kilonova.scheduler.reads import Reads


@dataclass(frozen=True, slots=True)
class VirtioSoundFilter:
    """Require the trait COMPUTE_SOUND_MODEL_VIRTIO for the sound model virtio. Source: spec SCHEDULER §6 #12."""

    name: ClassVar[str] = "virtio_sound_filter"
    reason: ClassVar[str] = "has no virtio sound device"
    reads: ClassVar[Reads] = guest_option_reads("sound_model")

    def apply(self, spec: RequestSpec, aggregates: AggregateIndex) -> RequestSpec:  # noqa: ARG002
        wanted = guest_option(spec.flavor, spec.image, "sound_model") == "virtio"
        return spec.requiring("COMPUTE_SOUND_MODEL_VIRTIO") if wanted else spec
