# SPDX-License-Identifier: Apache-2.0
from kilonova.cli.tiny_image import SIZE_BYTES, tiny_image


def test_the_image_is_a_disk_with_a_boot_sector_and_one_partition() -> None:
    image = tiny_image()
    assert len(image) == SIZE_BYTES == 4096
    assert image[510:512] == b"\x55\xaa"
    assert image[446] == 0x80
    assert not any(image[462:510])
    assert b"Kilonova test image" in image[:446]
    assert image[0x15:].startswith(b"Kilonova"), "the code looks for its text at 0x7c15"
