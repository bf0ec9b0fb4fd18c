# SPDX-License-Identifier: Apache-2.0
import errno
import os
from pathlib import Path
from typing import Any

import pytest

from kilonova.compute.virt.fake.disks import Disks
from kilonova.errors import DriverError


@pytest.fixture
def data(tmp_path: Path) -> Path:
    file = tmp_path / "base"
    file.write_bytes(b"image")
    return file


@pytest.mark.parametrize("number", [errno.EXDEV, errno.EMLINK])
def test_a_file_that_cannot_be_linked_is_copied(
    tmp_path: Path, data: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def refuse(*_: Any) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "link", refuse)
    disks = Disks(tmp_path / "disks", "node1")
    disks.make("a", data)
    disk = disks.find("a")
    assert disk is not None
    assert disk.read_bytes() == b"image"
    assert disk.stat().st_ino != data.stat().st_ino


def test_a_disk_is_made_again_of_the_same_file_and_leaves_no_draft(tmp_path: Path, data: Path) -> None:
    disks = Disks(tmp_path / "disks", "node1")
    disks.make("a", data)
    disks.make("a", data)
    disks.make("b", data)
    assert {inode: sorted(guests) for inode, guests in disks.users().items()} == {data.stat().st_ino: ["a", "b"]}
    assert sorted(file.name for file in (tmp_path / "disks/node1").iterdir()) == ["a", "b"]
    with pytest.raises(DriverError, match="Host node1 cannot make a disk"):
        disks.make("c", tmp_path / "absent")


def test_disks_of_hosts_do_not_mix_and_move_between_them(tmp_path: Path, data: Path) -> None:
    one, other = Disks(tmp_path / "disks", "rack/1"), Disks(tmp_path / "disks", "rack/2")
    one.make("a", data)
    assert other.find("a") is None
    other.take_from("rack/1", "a")
    other.take_from("rack/1", "b")  # it has no such disk
    one.remove("a")
    one.remove("a")
    assert (one.find("a"), other.find("a") is not None, other.find("b")) == (None, True, None)


def test_a_cancelled_copy_is_not_left_and_a_finished_one_not_made_again(tmp_path: Path, data: Path) -> None:
    disks = Disks(tmp_path / "disks", "node1")
    disks.make("a", data)

    def cancel() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        disks.copy("a", "i", data, cancel)
    assert not disks.copies.is_done("a", "i")
    disks.copy("a", "i", data, lambda: None)
    disks.copy("a", "i", data, cancel)
    disks.keep_only(set())
    assert not disks.copies.is_done("a", "i")
