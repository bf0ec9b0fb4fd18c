# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy.dialects import mysql, postgresql

from kilonova.db.core import tables as t
from kilonova.db.core.compiled_statements import CompiledStatements


def engine(folder: Path, name: str, shared: CompiledStatements) -> sa.Engine:
    return sa.create_engine(f"sqlite:///{folder / name}", execution_options={"compiled_cache": shared})


def test_engines_share_what_one_of_them_has_compiled(tmp_path: Path) -> None:
    shared = CompiledStatements(10)
    for number, name in enumerate(("one", "other")):
        with engine(tmp_path, name, shared).begin() as connection:
            t.flavors.create(connection)
            found = connection.execute(sa.select(t.flavors).where(t.flavors.c.flavor_id == str(number))).all()
        assert found == []
        assert len(shared) == 1
    with engine(tmp_path, "one", shared).connect() as connection:
        connection.execute(sa.select(t.flavors.c.flavor_id))
    assert len(shared) == 2


def test_another_kind_of_database_has_its_own() -> None:
    shared = CompiledStatements(10)
    dialects = [postgresql.dialect(), mysql.dialect(), mysql.dialect(is_mariadb=True)]  # type: ignore[no-untyped-call]
    for number, dialect in enumerate(dialects):
        shared[dialect, "select"] = number
    assert [shared.get((dialect, "select")) for dialect in dialects] == [0, 1, 2]
    assert shared.get((postgresql.dialect(), "select")) == 0  # type: ignore[no-untyped-call]


def test_they_are_bounded_and_those_in_use_stay() -> None:
    shared, dialect = CompiledStatements(10), postgresql.dialect()  # type: ignore[no-untyped-call]
    shared[dialect, "used"] = "used"
    for number in range(100):
        shared[dialect, number] = number
        assert shared[dialect, number] == number
        assert shared.get((dialect, "used")) == "used"
    assert len(shared) <= 15
