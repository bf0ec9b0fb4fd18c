# SPDX-License-Identifier: Apache-2.0
import pytest

from kilonova.db import server_passwords
from kilonova.db.database import Database
from support.stored_servers import store_server

pytestmark = pytest.mark.parametrize("kind", ["sqlite"], indirect=True)


def test_a_password_is_replaced_and_an_empty_one_deletes_it(database: Database) -> None:
    one, other = (store_server(database).uuid for _ in range(2))

    def found() -> tuple[str | None, str | None]:
        with database.read() as connection:
            return server_passwords.find(connection, one), server_passwords.find(connection, other)

    longest = "x" * server_passwords.LONGEST
    database.write(lambda tx: server_passwords.store(tx, other, "kept"))
    for encrypted in ("first", longest):
        database.write(lambda tx, encrypted=encrypted: server_passwords.store(tx, one, encrypted))  # type: ignore[misc]
        assert found() == (encrypted, "kept")
    database.write(lambda tx: server_passwords.store(tx, one, ""))
    assert found() == (None, "kept")
    database.write(lambda tx: server_passwords.clear(tx, one))
