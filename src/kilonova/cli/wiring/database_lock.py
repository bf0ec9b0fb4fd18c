# SPDX-License-Identifier: Apache-2.0
"""Lock file of an SQLite database, which only one control process may use.

The kernel releases the lock when the process that holds it exits.
"""

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
    """Lock an SQLite file for this control process. Wait some seconds, as an earlier control process may be exiting.

    Return the open lock file, which holds the lock until it is closed; None for a database server, which needs no lock.
    Raises: ConfigurationError.
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
                    "SQLite allows one control process; use PostgreSQL or MariaDB for several."
                ) from None
            time.sleep(0.05)
        else:
            return lock


def warn_if_exposed(database: Database) -> None:
    """Log a warning if other users can read or write the file of an SQLite database."""
    if database.is_sqlite and (mode := Path(str(database.url.database)).stat().st_mode & 0o077):
        LOG.warning("%s is accessible to other users (mode %03o): chmod it to 600", database.url.database, mode)
