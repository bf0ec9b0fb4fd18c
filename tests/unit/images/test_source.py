# SPDX-License-Identifier: Apache-2.0
"""A fixed list of images."""

import pytest

from kilonova.errors import NotFound
from kilonova.images.source import FixedImages
from kilonova.model.image import Image


def test_fixed_images() -> None:
    images = FixedImages([Image("i")])
    assert images.get("i", token=None, project_id="p").id == "i"
    assert [image.id for image in images.list(token=None)] == ["i"]
    with pytest.raises(NotFound):
        images.get("j", token=None, project_id="p")


def test_fixed_images_are_found_by_name() -> None:
    fixed = FixedImages([Image("i", "cirros"), Image("j", "other")])
    assert fixed.named("cirros", token=None, project_id="p") == (Image("i", "cirros"),)
    assert fixed.named("none", token=None, project_id="p") == ()
