# SPDX-License-Identifier: Apache-2.0
"""Locks for threads and processes that share a folder."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_SUFFIX = ".lock"


@contextmanager
def held(folder: Path, name: str, *, wait: bool = True) -> Iterator[bool]:
    """Hold the lock ``name`` of a folder within the block. The lock is a hidden file, removed on release.

    Yields True if the lock is held; False if ``wait`` is False and another thread or process holds the lock.
    The operating system releases the lock when its holder dies. The lock is not re-entrant: a thread that holds it must
    not request it again.
    """
    path = folder / f".{name}{_SUFFIX}"
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
            except BlockingIOError:
                yield False
                return
            # The former holder may have removed the file after it was opened here. A lock on a removed file is useless,
            # since other processes lock a new file.
            if not _is_still(path, descriptor):
                continue
            try:
                yield True
            finally:
                path.unlink(missing_ok=True)
            return
        finally:
            os.close(descriptor)


def is_lock(name: str) -> bool:
    """Tell whether ``name`` is the name of a lock file."""
    return name.startswith(".") and name.endswith(_SUFFIX)


def _is_still(path: Path, descriptor: int) -> bool:
    try:
        found = path.stat()
    except FileNotFoundError:
        return False
    ours = os.fstat(descriptor)
    return (found.st_dev, found.st_ino) == (ours.st_dev, ours.st_ino)
