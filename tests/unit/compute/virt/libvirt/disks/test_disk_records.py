# SPDX-License-Identifier: Apache-2.0
"""What is written beside the disks of a guest."""

import stat
from datetime import datetime
from pathlib import Path

import pytest

from kilonova.compute.virt.libvirt.disks.disk_records import (
    DiskRecord,
    MadeDisk,
    bases_by_folder,
    bases_in_use,
    read_record,
    write_record,
)
from kilonova.compute.virt.libvirt.domain.description import DiskFile, DiskRole
from kilonova.errors import DriverError

ROOT = MadeDisk(DiskRole.ROOT, "disk", "qcow2", "one.raw")
SWAP = MadeDisk(DiskRole.SWAP, "disk.swap", "raw")
RESCUE = MadeDisk(DiskRole.RESCUE, "disk.rescue", "qcow2", "two.raw")
ORDERED_AT = datetime.fromisoformat("2026-03-29T02:30:00.123456")


@pytest.mark.parametrize("is_draft", [True, False])
def test_a_record_is_read_as_it_was_written(tmp_path: Path, is_draft: bool) -> None:
    record = DiskRecord(ordered_at=ORDERED_AT).having(SWAP).having(ROOT)
    write_record(tmp_path, record, is_draft=is_draft)
    assert read_record(tmp_path) == record
    assert [path.name for path in tmp_path.iterdir()] == ["disks.json"]
    assert stat.S_IMODE((tmp_path / "disks.json").stat().st_mode) == 0o600
    assert read_record(tmp_path / "nowhere") is None


def test_disks_come_in_the_order_of_their_roles_and_a_rescue_apart(tmp_path: Path) -> None:
    record = DiskRecord().having(RESCUE).having(SWAP).having(ROOT)
    assert record.files(tmp_path) == (
        DiskFile(DiskRole.ROOT, tmp_path / "disk", "qcow2"), DiskFile(DiskRole.SWAP, tmp_path / "disk.swap", "raw"),
    )  # fmt: skip
    assert record.get(DiskRole.RESCUE) == RESCUE
    assert record.having(MadeDisk(DiskRole.SWAP, "other", "raw")).get(DiskRole.SWAP).file == "other"
    with pytest.raises(DriverError, match="no swap disk"):
        record.without(DiskRole.SWAP).get(DiskRole.SWAP)


def test_a_guest_has_several_ephemeral_disks() -> None:
    disks = [MadeDisk(DiskRole.EPHEMERAL, f"disk.eph{number}", "qcow2", f"{number}.raw") for number in range(2)]
    record = DiskRecord().having(SWAP).having(disks[0]).having(disks[1]).having(ROOT)
    assert record.disks == (ROOT, *disks, SWAP)
    changed = MadeDisk(DiskRole.EPHEMERAL, "disk.eph0", "raw")
    assert set(record.having(changed).disks) == {ROOT, changed, disks[1], SWAP}
    assert [record.has_file(name) for name in ("disk.eph1", "disk.eph2")] == [True, False]


def test_which_images_disks_need(tmp_path: Path) -> None:
    for name, disks in (("a", (ROOT, SWAP)), ("a_resize", (ROOT, RESCUE)), ("b", (SWAP,)), ("c.part", (RESCUE,))):
        (tmp_path / name).mkdir()
        write_record(tmp_path / name, DiskRecord(disks))
    (tmp_path / "_base").mkdir()
    assert bases_in_use(tmp_path) == {"one.raw", "two.raw"}
    assert dict(bases_by_folder(tmp_path))["a_resize"] == {"one.raw", "two.raw"}
    assert bases_in_use(tmp_path / "nowhere") == frozenset()
    (tmp_path / "b" / "disks.json").write_text("{")
    with pytest.raises(DriverError, match=r"b/disks\.json cannot be read"):
        bases_in_use(tmp_path)
