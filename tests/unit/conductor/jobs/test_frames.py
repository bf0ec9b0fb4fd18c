# SPDX-License-Identifier: Apache-2.0
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kilonova.conductor.jobs.frames import LONGEST, BadFrameError, FrameKind, FrameReader, encoded

FRAMES = st.lists(st.tuples(st.sampled_from(FrameKind), st.binary(max_size=50)), max_size=8)


@given(FRAMES, st.integers(1, 40))
def test_frames_are_read_however_they_are_cut(frames: list[tuple[FrameKind, bytes]], size: int) -> None:
    data = b"".join(encoded(kind, content) for kind, content in frames)
    reader = FrameReader()
    cut = [data[start : start + size] for start in range(0, len(data), size)]
    assert [frame for piece in cut for frame in reader.feed(piece)] == frames


@pytest.mark.parametrize("data", [b"Xabcdefgh", b"P" + (LONGEST + 1).to_bytes(4, "big"), b"\0\0\0\0\0"])
def test_other_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(BadFrameError):
        FrameReader().feed(data)
