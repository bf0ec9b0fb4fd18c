# SPDX-License-Identifier: Apache-2.0
"""A log file that is rotated by size while the process runs."""

import fcntl
import logging
import os
import sys
from io import TextIOWrapper
from logging.handlers import RotatingFileHandler
from pathlib import Path

from kilonova.records import dataclass

_OUTPUT_AND_ERROR = (1, 2)


@dataclass(frozen=True, slots=True)
class LogFile:
    """A log file.

    When it reaches ``max_bytes`` (0: never) it is renamed to ``path.1``; ``kept`` renamed files are kept.
    """

    path: Path
    max_bytes: int = 0
    kept: int = 30


class RotatingLog(RotatingFileHandler):
    """Handler that writes to a log file with mode 0600 and rotates it. Several processes may write to the same file.

    The process that finds the file full renames it; the others then find their file full, too, and open the new one.

    A supervisor may have redirected standard output and error to the same file, for text that is printed, not logged. A
    rotation redirects these two streams to the new file; otherwise they would write to the renamed file for ever.
    """

    def __init__(self, file: LogFile) -> None:
        super().__init__(
            file.path, maxBytes=file.max_bytes, backupCount=file.kept, encoding="utf-8", errors="backslashreplace"
        )

    def _open(self) -> TextIOWrapper:
        number = os.open(self.baseFilename, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        return os.fdopen(number, "a", encoding=self.encoding, errors=self.errors)

    def shouldRollover(self, record: logging.LogRecord) -> bool:  # noqa: N802
        """Return whether the file has reached ``max_bytes``, including the output of other processes."""
        del record
        return 0 < self.maxBytes <= os.fstat(self._stream().fileno()).st_size

    def doRollover(self) -> None:  # noqa: N802
        followers = [number for number in _OUTPUT_AND_ERROR if self._goes_here(number)]
        full = os.dup(self._stream().fileno())
        try:
            fcntl.flock(full, fcntl.LOCK_EX)
            if self._is_the_path(full):
                super().doRollover()
            else:  # another process has renamed the log file
                self._stream().close()
                self.stream = self._open()
        finally:
            # close() would not release the lock if a forked process shares this open file as its standard output
            fcntl.flock(full, fcntl.LOCK_UN)
            os.close(full)
        for number in followers:
            os.dup2(self._stream().fileno(), number)

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802
        """Drop the record after an OSError, such as a full disk: an error message would need the same disk."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handleError(record)

    def _stream(self) -> TextIOWrapper:
        if self.stream is None:  # the last rotation closed the file and then failed
            self.stream = self._open()
        return self.stream

    def _is_the_path(self, number: int) -> bool:
        try:
            return os.path.samestat(os.fstat(number), os.stat(self.baseFilename))  # noqa: PTH116 - as the base class
        except FileNotFoundError:
            return False

    def _goes_here(self, number: int) -> bool:
        try:
            return os.path.samestat(os.fstat(number), os.fstat(self._stream().fileno()))
        except OSError:  # standard output or error is closed
            return False
