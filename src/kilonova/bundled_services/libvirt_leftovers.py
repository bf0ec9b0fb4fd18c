# SPDX-License-Identifier: Apache-2.0
"""Removal of files that a stopped libvirtd has left in its folder, before libvirtd is started there again."""

import glob
import shutil
from collections.abc import Callable
from pathlib import Path

from kilonova.bundled_services.settings import LOG_BYTES


def forget_ended(notes: Path, sockets: Path, is_alive: Callable[[int], bool]) -> None:
    """Remove libvirtd's status files of guests whose processes exited while libvirtd was down.

    libvirtd expects these files on a tmpfs, which a reboot clears. Here they persist, and libvirtd would kill an
    unrelated process that has got the pid of such a guest. ``is_alive``: returns whether a pid belongs to a guest of
    this folder.
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
    """Rotate libvirtd's log, keeping one old file, and remove the logs of guests that no longer exist."""
    if log.exists() and log.stat().st_size > LOG_BYTES:
        log.replace(log.with_name(f"{log.name}.1"))
    for each in of_guests.glob("*.log"):
        if not (definitions / f"{each.stem}.xml").exists():
            each.unlink()


def _process_in(note: str) -> int | None:
    """Return the pid in libvirtd's status file of a guest, or None if the file contains no pid."""
    status = note.partition("<domstatus ")[2].partition(">")[0]
    digits = status.partition(" pid='")[2].partition("'")[0]
    return int(digits) if digits.isascii() and digits.isdigit() else None
