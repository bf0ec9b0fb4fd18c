# SPDX-License-Identifier: Apache-2.0
import hashlib
import io
from pathlib import Path

import pytest

from kilonova.compute.files.image_streams import ImageDraft, WatchedFile, hashes_to
from kilonova.errors import ImageUnusable
from kilonova.model.image_data import ImageData

SHA = hashlib.sha256(b"image").hexdigest()


def draft(size: int = 5, algorithm: str = "sha256", digest: str = SHA) -> ImageDraft:
    return ImageDraft(io.BytesIO(), ImageData("i", size_bytes=size, hash_algo=algorithm, hash_value=digest))


def test_data_that_begin_anew_count_once() -> None:
    made = draft()
    made.add(b"ima")
    made.begin_anew()
    made.add(b"ima")
    made.add(b"ge")
    made.require_whole()
    assert made.size == 5


def test_too_much_too_little_and_other_data_are_refused() -> None:
    with pytest.raises(ImageUnusable, match="larger than"):
        draft().add(b"images")
    short = draft()
    short.add(b"ima")
    with pytest.raises(ImageUnusable, match="has 3 bytes instead of 5"):
        short.require_whole()
    other = draft()
    other.add(b"IMAGE")
    with pytest.raises(ImageUnusable, match="damaged: its data does not match its sha256"):
        other.require_whole()


@pytest.mark.parametrize("algorithm", ["", "of-another-time"])
def test_a_checksum_that_cannot_be_computed_here_is_not_checked(tmp_path: Path, algorithm: str) -> None:
    made = draft(size=0, algorithm=algorithm)
    made.add(b"anything")
    made.require_whole()
    file = tmp_path / "image"
    file.write_bytes(b"image")
    assert hashes_to(file, {"os_hash_algo": algorithm, "os_hash_value": "x"})
    assert hashes_to(file, {"os_hash_algo": "sha256", "os_hash_value": SHA})
    assert not hashes_to(file, {"os_hash_algo": "sha256", "os_hash_value": "x"})


def test_an_upload_is_cancelled_between_two_chunks() -> None:
    checks = iter([None, None])
    watched = WatchedFile(io.BytesIO(b"image"), 5, lambda: next(checks))
    assert watched.read(2) == b"im"
    assert watched.read(2) == b"ag"
    with pytest.raises(StopIteration):
        watched.read(2)
