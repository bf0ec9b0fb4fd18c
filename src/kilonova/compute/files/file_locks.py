# SPDX-License-Identifier: Apache-2.0
"""Locks between threads and processes that share a folder."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_SUFFIX = ".lock"


@contextmanager
def held(folder: Path, name: str, *, wait: bool = True) -> Iterator[bool]:
    """Hold the lock ``name`` of a folder. It is a hidden file, which is gone when nobody holds it.

    Gives whether it is held, which without ``wait`` it is not where somebody else holds it.
    The system lets go of the lock when its holder dies. Nobody may ask twice for the same lock in one thread.
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
            if not _is_still(path, descriptor):  # whoever held it has removed it: others lock another file by now
                continue
            try:
                yield True
            finally:
                path.unlink(missing_ok=True)
            return
        finally:
            os.close(descriptor)


def is_lock(name: str) -> bool:
    """Tell whether a file of this name is a lock."""
    return name.startswith(".") and name.endswith(_SUFFIX)


def _is_still(path: Path, descriptor: int) -> bool:
    try:
        found = path.stat()
    except FileNotFoundError:
        return False
    ours = os.fstat(descriptor)
    return (found.st_dev, found.st_ino) == (ours.st_dev, ours.st_ino)
