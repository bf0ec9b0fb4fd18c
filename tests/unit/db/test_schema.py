# SPDX-License-Identifier: Apache-2.0
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
from kilonova.db import schema
from kilonova.db.core import tables as t
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
    with pytest.raises(ConfigurationError, match="9999, which this release does not know"):
        schema.require_current(sqlite)


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
