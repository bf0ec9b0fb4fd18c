# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import pytest

from kilonova.compute.files.disk_copies import DiskCopies
from kilonova.errors import DriverError


@pytest.fixture
def copies(tmp_path: Path) -> DiskCopies:
    return DiskCopies(tmp_path / "copies")


def copy(copies: DiskCopies, uuid: str, image_id: str, **options: bool) -> None:
    with copies.draft(uuid, image_id, **options) as draft:
        draft.write_bytes(b"data")


def test_a_finished_draft_is_the_copy_until_it_was_uploaded(copies: DiskCopies) -> None:
    assert not copies.is_done("a", "i")
    copy(copies, "a", "i")
    file = copies.copied("a", "i")
    assert file is not None
    assert file.read_bytes() == b"data"
    for _ in range(2):  # repeated after a crash
        copies.note_brought("a", "i")
        assert copies.copied("a", "i") is None
        assert copies.is_done("a", "i"), "it must not be copied again"


def test_an_error_leaves_no_draft_and_no_copy(copies: DiskCopies, tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), copies.draft("a", "i") as draft:
        draft.write_bytes(b"half of the da")
        raise ZeroDivisionError
    with pytest.raises(DriverError, match="cannot copy the disk of guest a"), copies.draft("a", "i"):
        pass  # no file was written
    assert list((tmp_path / "copies").iterdir()) == []


def test_a_new_copy_replaces_those_of_other_images_unless_it_is_told_otherwise(copies: DiskCopies) -> None:
    copy(copies, "a", "i")
    copy(copies, "b", "i")
    copy(copies, "a", "j", alone=False)
    assert copies.is_done("a", "i")
    copy(copies, "a", "k")
    assert [copies.is_done("a", image) for image in "ijk"] == [False, False, True]
    assert copies.is_done("b", "i")


def test_copies_of_absent_guests_and_drafts_are_removed(copies: DiskCopies, tmp_path: Path) -> None:
    copy(copies, "a", "i")
    copy(copies, "b", "i")
    copies.note_brought("b", "i")
    (tmp_path / "copies" / "a.j.part").write_bytes(b"left by a killed agent")
    copies.keep_only({"a"})
    assert [file.name for file in (tmp_path / "copies").iterdir()] == ["a.i"]
    DiskCopies(tmp_path / "absent").keep_only(set())


def test_an_image_id_cannot_leave_the_folder(copies: DiskCopies, tmp_path: Path) -> None:
    assert copies.path("a", "../../etc/passwd").parent == tmp_path / "copies"
