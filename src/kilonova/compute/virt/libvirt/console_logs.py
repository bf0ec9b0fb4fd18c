# SPDX-License-Identifier: Apache-2.0
"""The logs of serial ports, which guests may write to as much as they like, are kept small.

QEMU appends to them. What a guest writes in the moment in which its log is cut may be lost.
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
    """Those of all guests of a host, in ``folder``: FOLDER/INSTANCE/console.log."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        thread = PeriodicThread(
            "console logs",
            self.cut,
            _EVERY_S,
            description="Cut the logs of serial consoles that have grown too long.",
            complaint="Logs of consoles were not cut",
        )
        super().__init__("console logs", [thread])
        self.start()

    def cut(self) -> None:
        """Leave of each log that is too long its end, which is as much as is ever told."""
        for log in self._folder.glob(f"*/{NAME}"):
            try:
                if log.stat().st_size > _MOST_BYTES:
                    _cut(log)
            except OSError as error:
                LOG.warning("The console log %s cannot be cut: %s", log, error.strerror)


def end_of(log: Path) -> bytes:
    """Return the end of a log; nothing of one that is not there. Raises: OSError."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - CONSOLE_BYTES))
            return file.read(CONSOLE_BYTES)
    except FileNotFoundError:  # the guest has not started yet
        return b""


def _cut(log: Path) -> None:
    end = end_of(log)
    with log.open("ab") as file:
        file.truncate(0)
        file.write(end)
