# SPDX-License-Identifier: Apache-2.0
"""Frames that a job's process sends to its control process: a letter, the length of the content, and the content."""

import struct
from dataclasses import field
from enum import Enum

from kilonova.records import dataclass

_HEAD = struct.Struct(">cI")
#: Maximum length of a frame's content in bytes: a result, compressed. Database servers refuse larger statements.
LONGEST = 12 * 1024 * 1024


class FrameKind(Enum):
    """Kind of a frame. PROGRESS: a JSON list of the share done and a text; RESULT: compressed JSON; FAILURE: a text."""

    PROGRESS = b"P"
    RESULT = b"R"
    FAILURE = b"F"


class BadFrameError(Exception):
    """The received bytes are no frames."""


def encoded(kind: FrameKind, content: bytes) -> bytes:
    """Return a frame. The content must not be longer than :data:`LONGEST`."""
    return _HEAD.pack(kind.value, len(content)) + content


@dataclass(slots=True)
class FrameReader:
    """Splits received bytes into frames, however they arrive."""

    _rest: bytearray = field(default_factory=bytearray)

    def feed(self, data: bytes) -> list[tuple[FrameKind, bytes]]:
        """Return the frames that are complete with ``data``. Raises: BadFrameError."""
        self._rest += data
        found = []
        while len(self._rest) >= _HEAD.size:
            letter, length = _HEAD.unpack_from(self._rest)
            if length > LONGEST:
                raise BadFrameError
            end = _HEAD.size + length
            if len(self._rest) < end:
                break
            try:
                found.append((FrameKind(letter), bytes(self._rest[_HEAD.size : end])))
            except ValueError:
                raise BadFrameError from None
            del self._rest[:end]
        return found
