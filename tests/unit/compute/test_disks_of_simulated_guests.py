# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

from kilonova.compute.virt.fake.disks import Disks


def test_a_disk_that_is_made_again_of_the_same_image_leaves_no_draft(tmp_path: Path) -> None:
    image = tmp_path / "image"
    image.write_bytes(b"image")
    disks = Disks(tmp_path / "disks", "node1")
    for _ in range(2):
        disks.make("a", image)
    assert [file.name for file in (tmp_path / "disks" / "node1").iterdir()] == ["a"]
