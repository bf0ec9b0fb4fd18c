# SPDX-License-Identifier: Apache-2.0
"""The lock file beside an SQLite database: one control process at a time. The kernel drops it with the process."""

import fcntl
import time
from pathlib import Path
from typing import IO

from kilonova.db.database import Database
from kilonova.errors import ConfigurationError

_LOCK_WAIT_S = 5.0


def lock_database(database: Database) -> IO[bytes] | None:
    """Be the only control process of an SQLite file; a predecessor that is just dying is waited for.

    Returns what holds the lock until it is closed; None for a server, which needs no lock. Raises: ConfigurationError.
    """
    if not database.is_sqlite:
        return None
    path = Path(f"{database.url.database}.lock")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = path.open("ab")
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
