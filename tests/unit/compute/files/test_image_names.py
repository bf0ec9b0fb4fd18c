# SPDX-License-Identifier: Apache-2.0
"""File names in the image cache of a host."""

import pytest

from kilonova.compute.files.image_names import format_of, image_id_of, name_of, without_format
from kilonova.model.image_data import ImageData


@pytest.mark.parametrize("image_id", ["9a8b0f0e-0000-4000-8000-000000000001", "a.b", "../x y", "i.raw"])
@pytest.mark.parametrize("hash_value", ["", "0123456789abcdef" * 8])
def test_the_name_of_a_file_tells_its_image(image_id: str, hash_value: str) -> None:
    name = name_of(ImageData(image_id, hash_value=hash_value))
    assert "/" not in name
    for format_ in ("raw", "qcow2", "iso"):
        file = f"{name}.{format_}"
        assert (without_format(file), format_of(file)) == (name, format_)
    if hash_value:
        assert (without_format(name), format_of(name)) == (name, "")
        assert image_id_of(name) == image_id_of(f"{name}.raw") == image_id


def test_what_is_no_image_has_no_id() -> None:
    assert (image_id_of("ephemeral_20_ext4.raw"), format_of("ephemeral_20_ext4.raw")) == ("", "raw")
