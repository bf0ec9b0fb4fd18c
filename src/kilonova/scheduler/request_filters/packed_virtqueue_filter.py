# SPDX-License-Identifier: Apache-2.0
"""PackedVirtqueueFilter: hosts that support packed virtqueues, if requested."""

from typing import ClassVar

from kilonova.model.request_spec import RequestSpec
from kilonova.records import dataclass
from kilonova.scheduler.aggregate_index import AggregateIndex
from kilonova.scheduler.guest_options import guest_option_reads, is_set
from kilonova.scheduler.reads import Reads


@dataclass(frozen=True, slots=True)
class PackedVirtqueueFilter:
    """Require the trait COMPUTE_NET_VIRTIO_PACKED for ``hw:virtio_packed_ring``. Source: spec SCHEDULER §6 #8."""

    name: ClassVar[str] = "packed_virtqueue_filter"
    reason: ClassVar[str] = "has no packed virtqueues"
    reads: ClassVar[Reads] = guest_option_reads("virtio_packed_ring")

    def apply(self, spec: RequestSpec, aggregates: AggregateIndex) -> RequestSpec:  # noqa: ARG002
        wanted = is_set(spec.flavor, spec.image, "virtio_packed_ring")
        return spec.requiring("COMPUTE_NET_VIRTIO_PACKED") if wanted else spec
