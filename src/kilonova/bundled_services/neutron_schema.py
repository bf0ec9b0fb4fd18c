# SPDX-License-Identifier: Apache-2.0
"""Neutron's schema on SQLite, created from its models, because Neutron's migrations do not run on SQLite.

A database of another version is upgraded by copying its rows, column by column, into a database with the new schema.
"""

import sqlite3
import uuid
from contextlib import closing
from pathlib import Path
from typing import Any

import sqlalchemy

_OLD = ".old"
_RULES = "securitygroupdefaultrules"
_DIRECTIONS = (("egress", None, True), ("ingress", "PARENT", False))


def migrate(part: Path) -> None:
    """Upgrade the database file ``part`` to Neutron's current schema; create the file if it does not exist."""
    from neutron.db.migration.models import head  # noqa: PLC0415 - of the bundled service

    is_new = not part.exists()
    create(part, head.get_metadata())
    if is_new:
        with closing(sqlite3.connect(part)) as connection, connection:
            _add_default_rules(connection)


def create(part: Path, tables: Any) -> None:
    """Create the database file ``part`` with ``tables``. If the file exists, keep its rows.

    Columns that only the old file has are dropped, and so are rows that lack a column which ``tables`` requires.
    ``tables``: SQLAlchemy's MetaData.
    """
    old = part.with_name(part.name + _OLD)
    old.unlink(missing_ok=True)
    if part.exists():
        part.rename(old)
    engine = sqlalchemy.create_engine(f"sqlite:///{part}")
    sqlalchemy.event.listen(engine, "connect", lambda raw, _: raw.execute("PRAGMA synchronous = OFF"))
    tables.create_all(engine)
    engine.dispose()
    if old.exists():
        _copy_rows(old, part)
        old.unlink()


def _copy_rows(old: Path, new: Path) -> None:
    with closing(sqlite3.connect(new)) as connection:
        connection.execute("ATTACH ? AS old", (str(old),))
        tables = connection.execute("SELECT name FROM main.sqlite_master WHERE type = 'table'").fetchall()
        with connection:
            for (table,) in tables:
                known = _columns(connection, "old", table)
                both = ", ".join(f'"{name}"' for name in _columns(connection, "main", table) if name in known)
                if both:
                    copy = f'INSERT OR IGNORE INTO main."{table}" ({both}) SELECT {both} FROM old."{table}"'  # noqa: S608
                    connection.execute(copy)


def _columns(connection: sqlite3.Connection, schema: str, table: str) -> list[str]:
    return [row[1] for row in connection.execute(f'PRAGMA {schema}.table_info("{table}")')]


def _add_default_rules(connection: sqlite3.Connection) -> None:
    """Add the default rules that Neutron copies into new security groups.

    Otherwise only Neutron's migrations add them. Without these rules, new security groups would pass no traffic at all.
    """
    for direction, remote, in_every_group in _DIRECTIONS:
        for ethertype in ("IPv4", "IPv6"):
            attributes = connection.execute("INSERT INTO standardattributes (resource_type) VALUES (?)", (_RULES,))
            connection.execute(
                f"INSERT INTO {_RULES} (id, standard_attr_id, direction, ethertype, remote_group_id,"  # noqa: S608
                " used_in_default_sg, used_in_non_default_sg) VALUES (?, ?, ?, ?, ?, TRUE, ?)",
                (str(uuid.uuid4()), attributes.lastrowid, direction, ethertype, remote, in_every_group),
            )
