# SPDX-License-Identifier: Apache-2.0
"""Folders that an emulator with a user of its own gets through, to files that it is told of. Others list nothing."""

import contextlib
from pathlib import Path

_MODE = 0o711
_THROUGH = 0o011


def make_folder(folder: Path) -> None:
    """Make a folder, and those above it that are not there; present is success. Raises: OSError."""
    if not folder.is_dir():
        make_folder(folder.parent)
        folder.mkdir(exist_ok=True)
        folder.chmod(_MODE)  # whatever the umask says


def let_through(folder: Path) -> None:
    """Let others get through a folder that is there already, where that is ours to say."""
    with contextlib.suppress(OSError):
        mode = folder.stat().st_mode
        if mode & _THROUGH != _THROUGH:
            folder.chmod(mode | _THROUGH)
