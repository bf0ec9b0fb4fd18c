# SPDX-License-Identifier: Apache-2.0
import pytest
from tests.unit.scheduler.request_filters.applied import required
from tests.unit.scheduler.small_cloud import request

from kilonova.scheduler.request_filters import PackedVirtqueueFilter


@pytest.mark.parametrize(
    ("extra_specs", "properties", "expected"),
    [
        ({"hw:virtio_packed_ring": "True"}, {}, {"COMPUTE_NET_VIRTIO_PACKED"}),
        ({}, {"hw_virtio_packed_ring": "yes"}, {"COMPUTE_NET_VIRTIO_PACKED"}),
        ({"hw:virtio_packed_ring": "false"}, {}, set()),
    ],
)
def test_a_packed_ring_requires_the_trait(
    extra_specs: dict[str, str], properties: dict[str, str], expected: set[str]
) -> None:
    assert required(PackedVirtqueueFilter(), request(extra_specs, properties)) == expected
