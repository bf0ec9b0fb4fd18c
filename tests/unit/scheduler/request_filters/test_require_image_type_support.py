# SPDX-License-Identifier: Apache-2.0
import pytest
from tests.unit.scheduler.request_filters.applied import required
from tests.unit.scheduler.small_cloud import request

from kilonova.model.image import Image
from kilonova.scheduler.request_filters import RequireImageTypeSupport


@pytest.mark.parametrize(
    ("disk_format", "volume_backed", "expected"),
    [
        ("raw", False, {"COMPUTE_IMAGE_TYPE_RAW"}),
        ("qcow2", False, {"COMPUTE_IMAGE_TYPE_QCOW2"}),
        ("qcow2", True, set()),
        ("docker", False, set()),
    ],
)
def test_a_disk_format_requires_its_trait(disk_format: str, volume_backed: bool, expected: set[str]) -> None:
    spec = request(image=Image("i", disk_format=disk_format), volume_backed=volume_backed)
    assert required(RequireImageTypeSupport(), spec) == expected


def test_without_an_image_no_disk_format_is_required() -> None:
    assert required(RequireImageTypeSupport(), request()) == set()
