# SPDX-License-Identifier: Apache-2.0
"""Folders of guests: whose they are, and who gets through to which files.

An emulator with a user of its own gets through to files that it is told of. Others list nothing.
"""

import contextlib
from pathlib import Path

from kilonova.errors import ConfigurationError

#: What a folder of guests has beside them: the name of the host that they are on.
OWNER = "host"
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


def claim(folder: Path, host: str) -> None:
    """Note in ``instances_path`` that it has the guests of a host.

    Those of another one would count as guests of both: one agent would report, and might remove, what the other has.
    Raises: ConfigurationError.
    """
    owner = folder / OWNER
    try:
        with owner.open("a+", encoding="utf-8") as file:
            file.seek(0)
            noted = file.read().strip()
            if not noted:
                file.write(f"{host}\n")
    except OSError as error:
        raise ConfigurationError(f"[DEFAULT] instances_path: {owner} cannot be written: {error.strerror}.") from error
    if noted not in {"", host}:
        raise ConfigurationError(
            f"[DEFAULT] instances_path: {folder} has the guests of host {noted}, not of {host}. Set [DEFAULT] host = "
            f"{noted} if the machine has another name now, or use a folder of its own for each host. The name is in "
            f"{owner}."
        )
