# SPDX-License-Identifier: Apache-2.0
import pytest

from kilonova.api.compute.possible_guests import require_possible_guest
from kilonova.errors import InvalidRequest
from kilonova.model.flavor import Flavor
from kilonova.model.image import Image

FLAVOR = Flavor("1", "f", vcpus=1, memory_mib=64, root_gib=2)


def refusal(flavor: Flavor, image: Image | None) -> str | None:
    try:
        require_possible_guest(flavor, image, {}, flavor_field="the flavor", image_field="the image")
    except InvalidRequest as error:
        return error.message
    return None


@pytest.mark.parametrize(
    ("image", "expected"),
    [
        (Image("i", min_disk_gib=3), "field/attribute the flavor. Flavor's disk is too small"),
        (Image("i", size_bytes=2 * 1024**3 + 1), "field/attribute the flavor. Flavor's disk is too small"),
        (Image("i", min_memory_mib=65), "field/attribute the flavor. Flavor's memory is too small"),
        (Image("i", status="queued"), "field/attribute the image. Image i is not active."),
        (Image("i", properties={"hw_disk_bus": "floppy"}), "hw_disk_bus=floppy"),
    ],
)
def test_images_that_do_not_fit_are_refused_by_the_field_that_is_wrong(image: Image, expected: str) -> None:
    assert expected in (refusal(FLAVOR, image) or "")


def test_what_fits_passes() -> None:
    assert refusal(FLAVOR, None) is None
    assert refusal(FLAVOR, Image("i", min_disk_gib=2, min_memory_mib=64, size_bytes=2 * 1024**3)) is None
