# SPDX-License-Identifier: Apache-2.0
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext

from kilonova.cli.main import main
from kilonova.db import schema
from kilonova.db.core import tables as t
from kilonova.db.database import Database
from kilonova.errors import ConfigurationError


def test_the_migrations_end_in_the_tables(database: Database) -> None:
    with database.engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, t.metadata) == []


def test_every_column_of_every_table_is_as_wide_as_its_model_says(database: Database) -> None:
    inspector = sa.inspect(database.engine)
    dialect = database.engine.dialect
    for table in t.metadata.sorted_tables:
        found = {column["name"]: column for column in inspector.get_columns(table.name)}
        assert list(found) == [column.name for column in table.columns], table.name
        for column in table.columns:
            assert found[column.name]["nullable"] == column.nullable, column
            assert _sql(found[column.name]["type"], dialect) == _sql(column.type, dialect), column


def _sql(kind: Any, dialect: sa.Dialect) -> str:
    """Spell a type as the database would, leaving away what two spellings may differ in."""
    if isinstance(kind, sa.Boolean | sa.dialects.mysql.TINYINT):
        return "BOOLEAN"
    if isinstance(kind, sa.types.LargeBinary | sa.dialects.mysql.LONGBLOB):
        return "BLOB"
    text = str(kind.compile(dialect=dialect)).split(" COLLATE")[0].split(" CHARACTER SET")[0].upper()
    names = {"INTEGER(11)": "INTEGER", "BIGINT(20)": "BIGINT", "JSON": "LONGTEXT"} if dialect.name == "mariadb" else {}
    names |= {"DOUBLE PRECISION": "DOUBLE", "FLOAT(53)": "DOUBLE", "FLOAT": "DOUBLE"}
    return names.get(text, text)


@pytest.mark.parametrize("kind", ["mariadb"], indirect=True)
def test_mariadb_compares_text_as_the_other_databases_do(database: Database) -> None:
    wrong = sa.text(
        "SELECT table_name, column_name, collation_name FROM information_schema.columns "
        "WHERE table_schema = DATABASE() AND table_name <> 'alembic_version' AND data_type <> 'longtext' "
        "AND collation_name <> 'utf8mb4_nopad_bin'"  # JSON, a longtext, has one of its own and is never compared
    )
    with database.read() as connection:
        assert connection.execute(wrong).all() == []


def test_upgrading_twice_changes_nothing(database: Database) -> None:
    with database.read() as connection:
        before = connection.execute(sa.select(t.traits.c.id, t.traits.c.name).order_by(t.traits.c.id)).all()
    schema.upgrade(database)
    with database.read() as connection:
        assert connection.execute(sa.select(t.traits.c.id, t.traits.c.name).order_by(t.traits.c.id)).all() == before


def test_the_command_upgrades_an_empty_database(
    empty_database_url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "kilonova.conf"
    file.write_text(f"[database]\nconnection = {empty_database_url}\n")
    assert main(["db", "upgrade", "--config-file", str(file)]) == 0
    assert f"empty -> {schema.head()}" in capsys.readouterr().out


def test_only_sqlite_is_upgraded_by_starting(empty_database_url: str, kind: str) -> None:
    database = Database(empty_database_url)
    try:
        if kind == "sqlite":
            schema.require_current(database)
            assert schema.current(database) == schema.head()
        else:
            with pytest.raises(ConfigurationError, match="kilonova db upgrade"):
                schema.require_current(database)
            assert sa.inspect(database.engine).get_table_names() == []
    finally:
        database.close()
