# SPDX-License-Identifier: Apache-2.0
"""Folders that hold files of guests: their owner, which is a host, and their permissions.

QEMU runs as a separate user. It must be able to open files in these folders by path; other users may not list them.
"""

import contextlib
from pathlib import Path

from kilonova.errors import ConfigurationError

#: Name of the file, in the folder ``instances_path``, that contains the name of the host that owns the folder.
OWNER = "host"
_MODE = 0o711
_THROUGH = 0o011


def make_folder(folder: Path) -> None:
    """Make a folder and its missing parents; no error if it exists. Raises: OSError."""
    if not folder.is_dir():
        make_folder(folder.parent)
        folder.mkdir(exist_ok=True)
        folder.chmod(_MODE)  # mkdir() would reduce the mode by the umask


def let_through(folder: Path) -> None:
    """Allow other users to traverse an existing folder, if this process may change the folder's mode."""
    with contextlib.suppress(OSError):
        mode = folder.stat().st_mode
        if mode & _THROUGH != _THROUGH:
            folder.chmod(mode | _THROUGH)


def claim(folder: Path, host: str) -> None:
    """Record in the folder ``instances_path`` that the guests in it belong to ``host``.

    If two hosts shared the folder, each would report the guests of the other and might remove them.
    Raises: ConfigurationError if the folder belongs to another host.
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
            f"[DEFAULT] instances_path: {folder} holds the guests of host {noted}, not of {host}. Set [DEFAULT] host = "
            f"{noted} if the machine has another name now, or use a separate folder for each host. The name of the "
            f"owning host is in {owner}."
        )
