# SPDX-License-Identifier: Apache-2.0
"""Fixtures: a separate upgraded database for each test, on each of the three database backends.

``tests/conftest.py`` exports them to all tests. A test with the fixture ``database`` runs three times; a test of a
single backend is marked with ``@pytest.mark.parametrize("kind", ["postgresql"], indirect=True)``.
"""

import itertools
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kilonova.db import schema
from kilonova.db.database import Database
from support.database_servers import DatabaseServer, MariaDB, PostgreSQL, running

KINDS = ("sqlite", "postgresql", "mariadb")
#: Mark of tests that run on each backend in folders whose tests run on SQLite by default.
on_every_database = pytest.mark.parametrize("kind", KINDS, indirect=True)
_TEMPLATE = "kilonova_template"
_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def database_servers() -> Iterator[dict[str, DatabaseServer]]:
    """PostgreSQL and MariaDB servers by name, each with an upgraded template; started at the first use."""
    servers = PostgreSQL(), MariaDB()
    with running(*servers):
        for server in servers:
            server.create(_TEMPLATE)
            _upgrade(server.url(_TEMPLATE))
        yield {server.backend: server for server in servers}


@pytest.fixture(scope="session")
def sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """SQLite file with all tables and the standard traits and resource classes."""
    file = tmp_path_factory.mktemp("template") / "kilonova.db"
    _upgrade(f"sqlite:///{file}")
    return file


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    """Backend on which the test runs."""
    return str(request.param)


@pytest.fixture
def database_url(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """URL of an upgraded database without rows of its own."""
    if kind == "sqlite":
        file = tmp_path / "kilonova.db"
        shutil.copy(request.getfixturevalue("sqlite_template"), file)
        yield f"sqlite:///{file}"
        return
    server: DatabaseServer = request.getfixturevalue("database_servers")[kind]
    name = f"test_{next(_numbers)}"
    server.copy(_TEMPLATE, name)
    yield server.url(name)
    server.drop(name)


@pytest.fixture
def empty_database_url(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """URL of a database without tables."""
    if kind == "sqlite":
        yield f"sqlite:///{tmp_path / 'empty.db'}"
        return
    server: DatabaseServer = request.getfixturevalue("database_servers")[kind]
    name = f"empty_{next(_numbers)}"
    server.create(name)
    yield server.url(name)
    server.drop(name)


@pytest.fixture
def open_database(database_url: str) -> Iterator[Callable[[], Database]]:
    """Function that opens the test's database again, as a second control process would."""
    opened: list[Database] = []

    def another() -> Database:
        opened.append(Database(database_url))
        return opened[-1]

    yield another
    for database in opened:
        database.close()


@pytest.fixture
def database(open_database: Callable[[], Database]) -> Database:
    """Upgraded database without rows of its own."""
    return open_database()


def _upgrade(url: str) -> None:
    database = Database(url)
    try:
        schema.upgrade(database)
    finally:
        database.close()
