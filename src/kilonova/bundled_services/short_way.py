# SPDX-License-Identifier: Apache-2.0
"""A short symbolic link to a folder with a long path, because the path of a Unix socket has at most 107 bytes."""

import contextlib
import hashlib
import os
from pathlib import Path

from kilonova.errors import ConfigurationError

_SOCKET_PATH = 107  # linux/un.h
_PREFIX = "kn-"


def short_way(folder: Path, below: int) -> str:
    """Return the folder, or a link to it if socket paths in it would be too long.

    ``below``: number of bytes that the longest socket path has after the folder's path.
    """
    if len(os.fsencode(folder)) + below <= _SOCKET_PATH and " " not in str(folder):
        return str(folder)
    runtime = Path("/run") if os.geteuid() == 0 else Path(os.environ.get("XDG_RUNTIME_DIR") or "/run/user/0")
    shared = Path("/tmp")  # noqa: S108  `make_short_way` checks the owner of the link
    place = runtime if len(str(runtime)) < len("/run/user/100000") and _is_own(runtime) else shared
    return str(place / f"{_PREFIX}{hashlib.sha256(f'{os.geteuid()}:{folder}'.encode()).hexdigest()[:10]}")


def _is_own(path: Path) -> bool:
    with contextlib.suppress(OSError):
        return path.lstat().st_uid == os.geteuid() and os.access(path, os.W_OK)
    return False


def make_short_way(link: Path, folder: Path) -> None:
    """Create the link to the folder, and remove links to folders that no longer exist. Raises: ConfigurationError."""
    for other in link.parent.glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError):
            if other.is_symlink() and other.lstat().st_uid == os.geteuid() and not other.exists():
                other.unlink()
    with contextlib.suppress(FileExistsError):
        link.symlink_to(folder)
    if not _is_own(link) or not link.is_symlink() or link.readlink() != folder:
        raise ConfigurationError(
            f"the path {folder} is too long for sockets in it, and the short link {link} exists already for another "
            "user or folder; choose a folder with a shorter path"
        )
