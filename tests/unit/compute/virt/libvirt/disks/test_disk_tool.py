# SPDX-License-Identifier: Apache-2.0
import struct
from pathlib import Path

from kilonova.compute.virt.libvirt.disks import disk_tool
from kilonova.compute.virt.libvirt.disks.disk_tool import QCOW2, RAW, virtual_bytes


def test_the_size_of_a_qcow2_disk_is_in_its_header_and_that_of_a_raw_one_is_the_files(tmp_path: Path) -> None:
    file = tmp_path / "disk"
    file.write_bytes(b"QFI\xfb" + struct.pack(">IQIIQ", 3, 0, 0, 16, 20 << 30) + bytes(100))
    assert virtual_bytes(file, QCOW2) == 20 << 30
    assert virtual_bytes(file, RAW) == 132


def test_a_copy_keeps_holes_and_a_name_that_begins_with_a_dash_is_no_option(
    tmp_path: Path,
) -> None:
    source, target = tmp_path / "-source", tmp_path / "-target"
    with source.open("wb") as file:
        file.truncate(8 << 20)
    disk_tool.copy(source, target)
    assert target.stat().st_size == 8 << 20
    assert target.stat().st_blocks * 512 < 1 << 20
