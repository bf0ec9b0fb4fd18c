# SPDX-License-Identifier: Apache-2.0
"""The lock file beside an SQLite database: one control process at a time. The kernel drops it with the process."""

import fcntl
import logging
import os
import time
from pathlib import Path
from typing import IO

from kilonova.db.core.engines import private_file
from kilonova.db.database import Database
from kilonova.errors import ConfigurationError

LOG = logging.getLogger(__name__)
_LOCK_WAIT_S = 5.0


def lock_database(database: Database) -> IO[bytes] | None:
    """Be the only control process of an SQLite file; a predecessor that is just dying is waited for.

    Returns what holds the lock until it is closed; None for a server, which needs no lock. Raises: ConfigurationError.
    """
    if not database.is_sqlite:
        return None
    path = Path(f"{database.url.database}.lock")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        private_file(str(database.url.database))
        lock = os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600), "ab")
    except OSError as error:
        raise ConfigurationError(f"[database] connection: {path} cannot be opened: {error.strerror}.") from error
    deadline = time.monotonic() + _LOCK_WAIT_S
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                lock.close()
                raise ConfigurationError(
                    f"Another control process uses the SQLite database {database.url.database}. "
                    "SQLite serves one; use PostgreSQL or MariaDB for more."
                ) from None
            time.sleep(0.05)
        else:
            return lock


def warn_if_exposed(database: Database) -> None:
    """Say so in the log when others may read or write the file of an SQLite database."""
    if database.is_sqlite and (mode := Path(str(database.url.database)).stat().st_mode & 0o077):
        LOG.warning("%s is open to other users (mode %03o): chmod 600 it", database.url.database, mode)
