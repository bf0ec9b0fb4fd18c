# SPDX-License-Identifier: Apache-2.0
import struct

from kilonova.cli.up.tiny_image import SIZE_BYTES, tiny_image


def test_the_image_is_a_disk_with_a_boot_sector_and_one_partition() -> None:
    image = tiny_image()
    assert len(image) == SIZE_BYTES == 512 * 1024
    assert image[510:512] == b"\x55\xaa"
    assert image[446] == 0x80
    assert struct.unpack("<II", image[454:462]) == (1, SIZE_BYTES // 512 - 1)
    assert not any(image[462:510])
    assert b"Kilonova test image" in image[:440], "some systems keep the disk's signature after that"


def test_the_image_is_a_cd_that_starts_the_boot_sector() -> None:
    image = tiny_image()
    assert image[17 * 2048 + 1 :].startswith(b"CD001\1EL TORITO SPECIFICATION")
    catalogue = struct.unpack_from("<I", image, 17 * 2048 + 0x47)[0] * 2048
    assert sum(struct.unpack_from("<16H", image, catalogue)) % 0x10000 == 0
    assert image[catalogue + 32] == 0x88
    assert struct.unpack_from("<I", image, catalogue + 40) == (0,)
    assert image[0x8001:0x8006] != b"CD001", "an image service would take it for an ISO image"


def test_the_variant_that_ignores_the_power_button_differs_by_a_byte() -> None:
    differences = [
        at
        for at, (one, other) in enumerate(zip(tiny_image(), tiny_image(obeys_acpi=False), strict=True))
        if one != other
    ]
    assert differences == [445]
