# SPDX-License-Identifier: Apache-2.0
import ast
import subprocess
import sys
from pathlib import Path

import os_resource_classes
import os_traits
import pytest
import sqlalchemy as sa
from alembic.config import Config
from alembic.script import ScriptDirectory

from kilonova.cli.main import main
from kilonova.db import schema, switches
from kilonova.db.core import tables as t
from kilonova.db.core.transaction import Transaction
from kilonova.db.database import Database
from kilonova.errors import ConfigurationError


def test_the_newest_revision_is_the_one_that_the_code_names() -> None:
    config = Config()
    config.set_main_option("script_location", str(schema.MIGRATIONS))
    assert ScriptDirectory.from_config(config).get_current_head() == schema.head()


def test_a_fresh_file_gets_tables_and_vocabulary(tmp_path: Path) -> None:
    database = Database(f"sqlite:///{tmp_path / 'new.db'}")
    assert schema.current(database) is None
    schema.require_current(database)
    assert schema.current(database) == schema.head()
    with database.read() as connection:
        assert set(connection.execute(sa.select(t.traits.c.name)).scalars()) == set(os_traits.get_traits())
        classes = set(connection.execute(sa.select(t.resource_classes.c.name)).scalars())
        assert classes == set(os_resource_classes.STANDARDS)
    database.close()


def test_a_second_start_keeps_what_there_is(tmp_path: Path) -> None:
    for turn in range(3):
        database = Database(f"sqlite:///{tmp_path / 'new.db'}")
        schema.require_current(database)
        database.write(
            lambda tx, turn=turn: tx.execute(sa.insert(t.traits), {"name": f"CUSTOM_{turn}", "created_at": tx.now})
        )
        database.close()
    database = Database(f"sqlite:///{tmp_path / 'new.db'}")
    with database.read() as connection:
        names = connection.execute(sa.select(t.traits.c.name).where(t.traits.c.name.like("CUSTOM%"))).scalars().all()
    database.close()
    assert sorted(names) == ["CUSTOM_0", "CUSTOM_1", "CUSTOM_2"]


def test_a_file_that_is_no_database_is_named(tmp_path: Path) -> None:
    (tmp_path / "text.db").write_text("This is no database. " * 100)
    database = Database(f"sqlite:///{tmp_path / 'text.db'}")
    with pytest.raises(ConfigurationError, match=r"text\.db cannot be used: file is not a database"):
        schema.require_current(database)
    database.close()


def test_a_file_that_cannot_be_opened_is_named(tmp_path: Path) -> None:
    database = Database(f"sqlite:///{tmp_path / 'no' / 'such' / 'folder.db'}")
    with pytest.raises(ConfigurationError, match="cannot be used: unable to open database file"):
        schema.require_current(database)
    database.close()


def test_a_database_of_a_later_release_is_refused(sqlite: Database) -> None:
    sqlite.write(lambda tx: tx.execute(sa.text("UPDATE alembic_version SET version_num = '9999'")))
    sqlite.write(lambda tx: switches.turn_on(tx, "schema-works-since", "9998"))
    with pytest.raises(ConfigurationError, match="9999, which this release does not know"):
        schema.require_current(sqlite)


@pytest.mark.parametrize(("since", "works"), [(schema.HEAD, True), ("0001", True), ("9998", False), (None, False)])
def test_a_database_of_a_later_release_is_used_if_its_schema_works_with_this_release(
    sqlite: Database, since: str | None, works: bool, caplog: pytest.LogCaptureFixture
) -> None:
    schema.upgrade(sqlite)
    with sqlite.read() as connection:
        written = switches.find(connection, "schema-works-since")
    assert written is not None
    assert written.reason == schema.WORKS_SINCE

    def later_release(tx: Transaction) -> None:
        tx.execute(sa.text("UPDATE alembic_version SET version_num = '9999'"))
        switches.turn_off(tx, "schema-works-since")
        if since is not None:
            switches.turn_on(tx, "schema-works-since", since)

    sqlite.write(later_release)
    if works:
        schema.require_current(sqlite)
        schema.require_present(sqlite)
        assert "revision 9999 of a later release" in caplog.text
    else:
        with pytest.raises(ConfigurationError, match="9999, which this release does not know"):
            schema.require_current(sqlite)
        with pytest.raises(ConfigurationError, match="is at revision 9999"):
            schema.require_present(sqlite)
    with sqlite.read() as connection:
        kept = switches.find(connection, "schema-works-since")
    assert (None if kept is None else kept.reason) == since


#: What a migration may do while processes of the release before run.
EXPANDS = {"create_table", "create_index", "add_column", "f"}


def expansion_faults(file: Path) -> list[str]:
    """Return the operations of a migration that the release before may not survive."""
    calls = [node for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.Call)]
    named = [(node, node.func) for node in calls if isinstance(node.func, ast.Attribute)]
    found = []
    for node, function in named:
        if isinstance(function.value, ast.Name) and function.value.id == "op":
            if function.attr not in EXPANDS:
                found.append(function.attr)
            if function.attr == "add_column":
                options = {each.arg: ast.unparse(each.value) for each in getattr(node.args[1], "keywords", [])}
                if options.get("nullable", "True") != "True" and "server_default" not in options:
                    found.append(f"{ast.unparse(node.args[1])}: no default for rows of the release before")
    return found


def test_migrations_since_the_release_before_only_expand_the_schema() -> None:
    """A migration that contracts the schema comes one release after the code stopped to use what it removes."""
    later = [file for file in (schema.MIGRATIONS / "versions").glob("0*.py") if file.name[:4] > schema.WORKS_SINCE]
    assert later
    assert {file.name: faults for file in later if (faults := expansion_faults(file))} == {}


def test_a_migration_that_contracts_the_schema_is_found(tmp_path: Path) -> None:
    file = tmp_path / "0099_contract.py"
    file.write_text(
        "def upgrade():\n    op.drop_column('a', 'b')\n"
        "    op.add_column('a', sa.Column('c', sa.Integer(), nullable=False))\n"
        "    op.add_column('a', sa.Column('d', sa.Integer(), nullable=False, server_default='0'))\n"
    )
    first, second = expansion_faults(file)
    assert first == "drop_column"
    assert "'c'" in second


def test_the_command_says_from_where_to_where(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = tmp_path / "k.conf"
    config.write_text(f"[database]\nconnection = sqlite:///{tmp_path / 'k.db'}\n")
    for before in ("empty", schema.head()):
        assert main(["db", "upgrade", "--config-file", str(config)]) == 0
        assert capsys.readouterr().out.strip().endswith(f"{before} -> {schema.head()}")


def test_the_command_fails_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "k.db").write_text("no database " * 100)
    config = tmp_path / "k.conf"
    config.write_text(f"[database]\nconnection = sqlite:///{tmp_path / 'k.db'}\n")
    assert main(["db", "upgrade", "--config-file", str(config)]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_an_ordinary_start_does_without_the_migration_tool(sqlite: Database) -> None:
    """It is what a start would wait for longest."""
    program = (
        "import sys\nfrom kilonova.db import schema\nfrom kilonova.db.database import Database\n"
        f"schema.require_current(Database({str(sqlite.url)!r}))\nassert 'alembic' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
