# SPDX-License-Identifier: Apache-2.0
"""Periodic truncation of the serial console logs of guests, which would otherwise grow without limit.

QEMU appends to these logs. Output that a guest writes at the moment of a truncation may be lost.
"""

import logging
import os
from pathlib import Path

from kilonova.compute.virt.abilities import CONSOLE_BYTES
from kilonova.periodic import PeriodicPart, PeriodicThread

LOG = logging.getLogger(__name__)
NAME = "console.log"
_MOST_BYTES = 10 * CONSOLE_BYTES
_EVERY_S = 5.0


class ConsoleLogs(PeriodicPart):
    """Truncates the console logs of all guests of a host: the files FOLDER/INSTANCE/console.log."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        thread = PeriodicThread(
            "console logs",
            self.cut,
            _EVERY_S,
            description="Truncate serial console logs that have grown too long.",
            complaint="The truncation of console logs failed",
        )
        super().__init__("console logs", [thread])
        self.start()

    def cut(self) -> None:
        """Truncate each log that is too long. Its tail, which is the part that users can request, is kept."""
        for log in self._folder.glob(f"*/{NAME}"):
            try:
                if log.stat().st_size > _MOST_BYTES:
                    _cut(log)
            except OSError as error:
                LOG.warning("The console log %s cannot be truncated: %s", log, error.strerror)


def end_of(log: Path) -> bytes:
    """Return the tail of a log, at most ``CONSOLE_BYTES``; empty if the log does not exist. Raises: OSError."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - CONSOLE_BYTES))
            return file.read(CONSOLE_BYTES)
    except FileNotFoundError:  # the guest has not been started yet
        return b""


def _cut(log: Path) -> None:
    end = end_of(log)
    with log.open("ab") as file:
        file.truncate(0)
        file.write(end)
