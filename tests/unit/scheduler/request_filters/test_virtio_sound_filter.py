# SPDX-License-Identifier: Apache-2.0
import pytest
from tests.unit.scheduler.request_filters.applied import required
from tests.unit.scheduler.small_cloud import request

from kilonova.scheduler.request_filters import VirtioSoundFilter


@pytest.mark.parametrize(
    ("extra_specs", "properties", "expected"),
    [
        ({"hw:sound_model": "virtio"}, {}, {"COMPUTE_SOUND_MODEL_VIRTIO"}),
        ({}, {"hw_sound_model": "virtio"}, {"COMPUTE_SOUND_MODEL_VIRTIO"}),
        ({"hw:sound_model": "ich9"}, {"hw_sound_model": "virtio"}, set()),
    ],
)
def test_a_sound_device_of_virtio_requires_the_trait_and_the_flavor_overrides_the_image(
    extra_specs: dict[str, str], properties: dict[str, str], expected: set[str]
) -> None:
    assert required(VirtioSoundFilter(), request(extra_specs, properties)) == expected
