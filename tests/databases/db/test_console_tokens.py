# SPDX-License-Identifier: Apache-2.0
from datetime import datetime, timedelta

import sqlalchemy as sa

from kilonova.clock import utc_now
from kilonova.db import console_tokens, instances
from kilonova.db.console_tokens import MOST, ConsoleToken
from kilonova.db.core import tables as t
from kilonova.db.database import Database
from kilonova.model.console import ConsoleEnd
from support.stored_servers import store_server

NOW = utc_now().replace(microsecond=0)


def token_of(uuid: str, expires_at: datetime) -> ConsoleToken:
    return ConsoleToken(uuid, "node1", "novnc", ConsoleEnd("10.0.0.1", 5900, internal_access_path="path"), expires_at)


def find(database: Database, token: str, now: datetime = NOW) -> ConsoleToken | None:
    with database.read() as connection:
        return console_tokens.find(connection, token, now)


def test_a_token_opens_its_console_until_it_expires_and_while_the_server_stays(database: Database) -> None:
    server = store_server(database, host="node1", node="node1")
    token = token_of(server.uuid, NOW + timedelta(minutes=5))
    database.write(lambda tx: console_tokens.store(tx, "secret", token))
    assert find(database, "secret") == token
    assert find(database, "other") is None
    assert find(database, "secret", NOW + timedelta(minutes=5)) is None
    with database.read() as connection:
        assert "secret" not in connection.execute(sa.select(t.console_auth_tokens.c.token_hash)).scalars().all()
    database.write(lambda tx: instances.change(tx, server.uuid, host="node2"))
    assert find(database, "secret") is None


def test_the_oldest_token_goes_when_a_server_has_too_many(database: Database) -> None:
    server = store_server(database, host="node1", node="node1")
    for number in range(MOST + 1):
        token = token_of(server.uuid, NOW + timedelta(seconds=1 + number))
        database.write(lambda tx, token=token, name=str(number): console_tokens.store(tx, name, token))  # type: ignore[misc]
    assert find(database, "0") is None
    assert find(database, "1") is not None
    assert find(database, str(MOST)) is not None
    with database.read() as connection:
        expired = console_tokens.expired(connection, NOW + timedelta(seconds=3))
    assert len(expired) == 2
    database.write(lambda tx: console_tokens.forget(tx, expired))
    assert find(database, "1") is None
    assert find(database, "3") is not None
