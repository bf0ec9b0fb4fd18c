# SPDX-License-Identifier: Apache-2.0
"""The schema of a database: check of its revision, upgrade, and the standard resource classes and traits."""

import logging
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path

import os_resource_classes
import os_traits
import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError

from kilonova.db import switches
from kilonova.db.core import tables as t
from kilonova.db.core.engines import is_full, is_refused, storage_full
from kilonova.db.core.transaction import Transaction
from kilonova.db.database import Database
from kilonova.errors import ConfigurationError, StorageFull, Unavailable

LOG = logging.getLogger(__name__)
MIGRATIONS = Path(__file__).parent / "migrations"


#: The newest revision that this release knows. Not read from Alembic, which is slow to import (a test compares both).
HEAD = "0035"
#: Oldest revision whose release works on the schema of ``HEAD``: later migrations only add what that release ignores.
WORKS_SINCE = "0029"
#: Row of ``switches`` whose reason is ``WORKS_SINCE`` of the newest release that has upgraded the database.
_WORKS_SINCE_ROW = "schema-works-since"


class DatabaseAwayError(ConfigurationError, Unavailable):
    """The database server does not answer or accepts no connections; a later attempt may succeed."""


#: Longest back-off between two attempts to connect, in seconds.
_LONGEST_PAUSE_S = 5.0
#: Interval between log lines while the server does not answer, in seconds.
_SAID_EVERY_S = 60.0


def head() -> str:
    """Return the newest revision that this release knows."""
    return HEAD


def is_known(revision: str) -> bool:
    """Return whether this release can upgrade a database at this revision."""
    return any(file.name.startswith(f"{revision}_") for file in (MIGRATIONS / "versions").glob("*.py"))


def current(database: Database) -> str | None:
    """Return the revision of the database, or None if it is empty.

    Raises: ConfigurationError if the database cannot be opened; DatabaseAwayError if a later attempt may succeed.
    """
    try:
        with database.read() as connection:
            if not sa.inspect(connection).has_table("alembic_version"):
                return None
            found: str | None = connection.execute(sa.text("SELECT version_num FROM alembic_version")).scalar()
            return found
    except StorageFull:
        raise
    except (DBAPIError, sqlite3.Error, Unavailable) as error:
        cause = (error.__cause__ or error) if isinstance(error, Unavailable) else error
        reason = str(cause.orig if isinstance(cause, DBAPIError) else cause).strip().splitlines()[0]
        where = database.url.render_as_string(hide_password=True)
        may_pass = not database.is_sqlite and not (isinstance(cause, DBAPIError) and is_refused(cause))
        kind = DatabaseAwayError if may_pass else ConfigurationError
        raise kind(f"[database] connection: {where} cannot be used: {reason.removesuffix('.')}.") from error


def wait_until_it_answers(
    database: Database,
    pause: Callable[[float], object] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> None:
    """Wait until the database server answers, and log at intervals that it does not.

    Raises: ConfigurationError for a failure that waiting cannot fix.
    """
    pause_s, said_at = 0.5, None
    while True:
        try:
            current(database)
        except DatabaseAwayError as error:
            if said_at is None or clock() - said_at >= _SAID_EVERY_S:
                said_at = clock()
                LOG.warning("%s Retrying until the database answers.", error.message)
            pause(pause_s)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
        else:
            if said_at is not None:
                LOG.info("The database answers")
            return


def upgrade(database: Database) -> None:
    """Apply all missing migrations, and add missing standard traits and resource classes. Idempotent."""
    try:
        _migrate(database)
    except DBAPIError as error:
        if is_full(error):
            raise storage_full(database.url, error) from error
        raise
    database.write(_sync)


def _sync(tx: Transaction) -> None:
    sync_vocabulary(tx)
    if tx.execute(sa.text("SELECT version_num FROM alembic_version")).scalar() == HEAD:
        switches.turn_on(tx, _WORKS_SINCE_ROW, WORKS_SINCE)


def works_here(database: Database, found: str | None) -> bool:
    """Return whether this release works on ``found``, a revision of a later release."""
    if found is None or is_known(found):
        return False
    with database.read() as connection:
        since = switches.find(connection, _WORKS_SINCE_ROW)
    if since is None or since.reason > HEAD:
        return False
    LOG.warning("The database is at revision %s of a later release, which works with this release, too.", found)
    return True


def _migrate(database: Database) -> None:
    found = current(database)
    if found != HEAD:
        from alembic import command  # noqa: PLC0415 - slow to import, and rarely needed
        from alembic.config import Config  # noqa: PLC0415 - start-up time
        from alembic.script import ScriptDirectory  # noqa: PLC0415 - start-up time

        config = Config()
        config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
        known = {script.revision for script in ScriptDirectory.from_config(config).walk_revisions()}
        if works_here(database, found):
            return
        if found is not None and found not in known:
            raise ConfigurationError(f"The database is at revision {found}, which this release does not know.")
        with database.engine.begin() as connection:
            config.attributes["connection"] = connection
            command.upgrade(config, "head")
            # Every transaction needs this row, the counter of commits.
            if connection.execute(sa.select(t.change_counter.c.seq)).first() is None:
                connection.execute(sa.insert(t.change_counter), {"id": 1, "seq": 0})


def require_current(database: Database) -> None:
    """Upgrade an SQLite file; check that any other database has the newest revision. Raises: ConfigurationError."""
    if database.is_sqlite:
        upgrade(database)
        return
    require_present(database)
    database.write(sync_vocabulary)


def require_present(database: Database) -> None:
    """Check that the schema has the newest revision, without changes. Raises: ConfigurationError."""
    found, wanted = current(database), head()
    if found != wanted and not works_here(database, found):
        raise ConfigurationError(
            f"The database is at revision {found or 'none'}, this release needs {wanted}: run `kilonova db upgrade`."
        )


def sync_vocabulary(tx: Transaction) -> None:
    """Insert missing standard resource classes and traits."""
    for table, names in ((t.resource_classes, os_resource_classes.STANDARDS), (t.traits, os_traits.get_traits())):
        known = set(tx.execute(sa.select(table.c.name)).scalars())
        missing = [{"name": name, "created_at": tx.now} for name in names if name not in known]
        if missing:
            tx.execute(sa.insert(table), missing)
