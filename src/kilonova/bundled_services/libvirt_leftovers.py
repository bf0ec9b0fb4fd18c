# SPDX-License-Identifier: Apache-2.0
"""What a libvirtd leaves in its folder, cleared away before the next one starts there."""

import glob
import shutil
from collections.abc import Callable
from pathlib import Path

from kilonova.bundled_services.settings import LOG_BYTES


def forget_ended(notes: Path, sockets: Path, is_alive: Callable[[int], bool]) -> None:
    """Let libvirtd forget processes of guests that have ended without it.

    It expects its notes of them in memory, gone with the machine. These are not, and it would kill whoever has the id
    of such a process by now. ``is_alive``: whether a process belongs to a guest.
    """
    for note in notes.glob("*.xml"):
        pid = _process_in(note.read_text(encoding="utf-8", errors="replace"))
        if pid is not None and is_alive(pid):
            continue
        note.unlink()
        note.with_suffix(".pid").unlink(missing_ok=True)
        for folder in [*sockets.rglob(f"domain-*-{glob.escape(note.stem)}")]:
            shutil.rmtree(folder)


def tidy_logs(log: Path, of_guests: Path, definitions: Path) -> None:
    """Nobody else rotates these: keep one old log of libvirtd, and forget those of guests that are gone."""
    if log.exists() and log.stat().st_size > LOG_BYTES:
        log.replace(log.with_name(f"{log.name}.1"))
    for each in of_guests.glob("*.log"):
        if not (definitions / f"{each.stem}.xml").exists():
            each.unlink()


def _process_in(note: str) -> int | None:
    """Return the process of a guest that libvirtd has noted, None where it has noted none."""
    status = note.partition("<domstatus ")[2].partition(">")[0]
    digits = status.partition(" pid='")[2].partition("'")[0]
    return int(digits) if digits.isascii() and digits.isdigit() else None
