# SPDX-License-Identifier: Apache-2.0
"""A log file that is rotated by size while the process runs."""

import logging
import os
import sys
from dataclasses import dataclass
from io import TextIOWrapper
from logging.handlers import RotatingFileHandler
from pathlib import Path

_OUTPUT_AND_ERROR = (1, 2)


@dataclass(frozen=True, slots=True)
class LogFile:
    """Where a log goes. At ``max_bytes`` it becomes ``path.1``, of which ``kept`` stay; 0: it is not rotated."""

    path: Path
    max_bytes: int = 0
    kept: int = 30


class RotatingLog(RotatingFileHandler):
    """Writes to a log file that only its owner can read, and rotates it.

    A supervisor may have sent standard output and error into the same file, for what is not logged but printed. Then
    they follow it when it is rotated; otherwise they would write into the old files for ever.
    """

    def __init__(self, file: LogFile) -> None:
        super().__init__(
            file.path, maxBytes=file.max_bytes, backupCount=file.kept, encoding="utf-8", errors="backslashreplace"
        )

    def _open(self) -> TextIOWrapper:
        number = os.open(self.baseFilename, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        return os.fdopen(number, "a", encoding=self.encoding, errors=self.errors)

    def shouldRollover(self, record: logging.LogRecord) -> bool:  # noqa: N802
        """Tell whether the file is full, whoever wrote into it."""
        del record
        return 0 < self.maxBytes <= os.fstat(self._stream().fileno()).st_size

    def doRollover(self) -> None:  # noqa: N802
        followers = [number for number in _OUTPUT_AND_ERROR if self._goes_here(number)]
        super().doRollover()
        for number in followers:
            os.dup2(self._stream().fileno(), number)

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802
        """Lose the record when it cannot be written (a full disk): to say so would go to the same disk."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handleError(record)

    def _stream(self) -> TextIOWrapper:
        if self.stream is None:  # a rotation failed half way
            self.stream = self._open()
        return self.stream

    def _goes_here(self, number: int) -> bool:
        try:
            return os.path.samestat(os.fstat(number), os.fstat(self._stream().fileno()))
        except OSError:  # it is closed
            return False
