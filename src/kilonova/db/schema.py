# SPDX-License-Identifier: Apache-2.0
"""Bring a database to the present schema and vocabulary, or say that it is not there."""

import sqlite3
from pathlib import Path

import os_resource_classes
import os_traits
import sqlalchemy as sa
from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy.exc import DBAPIError

from kilonova.db import tables as t
from kilonova.db.database import Database, Transaction
from kilonova.errors import ConfigurationError

MIGRATIONS = Path(__file__).parent / "migrations"


def _alembic_config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    return config


def _scripts() -> ScriptDirectory:
    return ScriptDirectory.from_config(_alembic_config())


def head() -> str | None:
    """Return the newest revision that this release knows."""
    return _scripts().get_current_head()


def current(database: Database) -> str | None:
    """Return the revision of the database, None when it is empty.

    Raises: ConfigurationError when it is no database, or none that can be opened.
    """
    try:
        with database.read() as connection:
            return MigrationContext.configure(connection).get_current_revision()
    except (DBAPIError, sqlite3.Error) as error:
        reason = str(error.orig if isinstance(error, DBAPIError) else error).strip().splitlines()[0]
        where = database.url.render_as_string(hide_password=True)
        raise ConfigurationError(f"[database] connection: {where} cannot be used: {reason}.") from error


def upgrade(database: Database) -> None:
    """Apply every missing migration, then the standard traits and resource classes. Safe to repeat."""
    found = current(database)
    if found != head():
        config = _alembic_config()
        if found is not None and found not in {script.revision for script in _scripts().walk_revisions()}:
            raise ConfigurationError(f"The database is at revision {found}, which this release does not know.")
        with database.engine.begin() as connection:
            config.attributes["connection"] = connection
            command.upgrade(config, "head")
    database.write(sync_vocabulary)


def require_current(database: Database) -> None:
    """Raise ConfigurationError unless the schema is the present one. An SQLite file is upgraded instead."""
    if database.is_sqlite:
        upgrade(database)
        return
    found, wanted = current(database), head()
    if found != wanted:
        raise ConfigurationError(
            f"The database is at revision {found or 'none'}, this release needs {wanted}: run `kilonova db upgrade`."
        )
    database.write(sync_vocabulary)


def sync_vocabulary(tx: Transaction) -> None:
    """Add the standard resource classes and traits that the database lacks."""
    for table, names in ((t.resource_classes, os_resource_classes.STANDARDS), (t.traits, os_traits.get_traits())):
        known = set(tx.execute(sa.select(table.c.name)).scalars())
        missing = [{"name": name, "created_at": tx.now} for name in names if name not in known]
        if missing:
            tx.execute(sa.insert(table), missing)
    if tx.execute(sa.select(t.change_counter.c.seq)).scalar() is None:
        tx.execute(sa.insert(t.change_counter), {"id": 1, "seq": 0})
