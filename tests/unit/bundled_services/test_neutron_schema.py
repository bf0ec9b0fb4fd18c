# SPDX-License-Identifier: Apache-2.0
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from sqlalchemy import Column, ForeignKey, Integer, MetaData, String, Table

from kilonova.bundled_services import neutron_schema


def _tables(*columns: Column[Any]) -> MetaData:
    tables = MetaData()
    Table("ports", tables, Column("id", Integer, primary_key=True), *columns)
    Table("addresses", tables, Column("port", ForeignKey("ports.id")))
    return tables


def _rows(database: Path, table: str = "ports") -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(database)) as connection:
        return connection.execute(f"SELECT * FROM {table}").fetchall()


def test_rows_are_copied_into_a_schema_with_other_columns(tmp_path: Path) -> None:
    database = tmp_path / "neutron.part"
    neutron_schema.create(database, _tables(Column("name", String), Column("gone", String)))
    with closing(sqlite3.connect(database)) as connection, connection:
        connection.execute("INSERT INTO ports VALUES (1, 'p', 'x')")
        connection.execute("INSERT INTO addresses VALUES (1)")
    neutron_schema.create(database, _tables(Column("status", String, server_default="DOWN"), Column("name", String)))
    assert _rows(database) == [(1, "DOWN", "p")]
    assert _rows(database, "addresses") == [(1,)]
    assert list(tmp_path.iterdir()) == [database]


def test_a_new_table_is_empty(tmp_path: Path) -> None:
    database = tmp_path / "neutron.part"
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("CREATE TABLE other (n INTEGER)")
    neutron_schema.create(database, _tables())
    assert _rows(database) == []
