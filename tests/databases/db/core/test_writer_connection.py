# SPDX-License-Identifier: Apache-2.0
"""Server restarts, broken connections, commits without a reply: no write is lost, and none happens twice."""

import threading
import time
from collections.abc import Callable, Iterator

import pytest
import sqlalchemy as sa

from kilonova.db import resource_classes
from kilonova.db.change_log.changes import Commit
from kilonova.db.core import tables as t
from kilonova.db.core.transaction import Transaction
from kilonova.db.database import Database
from kilonova.errors import Conflict, Unavailable
from kilonova.mirror.mirror import Mirror
from support.database_servers import DatabaseServer
from support.proxies import Proxy

SERVERS = ("postgresql", "mariadb")
pytestmark = pytest.mark.parametrize("kind", SERVERS, indirect=True)


@pytest.fixture
def proxied(proxy: Proxy, database_url: str) -> Iterator[Database]:
    database = Database(sa.make_url(database_url).set(port=proxy.port).render_as_string(hide_password=False))
    yield database
    database.close()


def bump(tx: Transaction) -> None:
    """Something that must not be done twice."""
    tx.execute(sa.update(t.traits).where(t.traits.c.id == 1).values(name=t.traits.c.name + "+"))
    tx.log("metrics", "bump", {})


def bumps(database: Database) -> int:
    with database.read() as connection:
        name: str = connection.execute(sa.select(t.traits.c.name).where(t.traits.c.id == 1)).scalar_one()
    return name.count("+")


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("batch", [1, 5])
def test_a_commit_without_an_answer_happens_once(proxied: Database, proxy: Proxy, when: str, batch: int) -> None:
    commits: list[Commit] = []
    proxied.on_commit(commits.append)
    proxied.write(bump)
    proxy.cut = when
    for future in [proxied.submit(bump) for _ in range(batch)]:
        future.result(timeout=20)
    assert proxy.cuts == 1
    proxied.write(bump)
    assert bumps(proxied) == batch + 2
    with proxied.read() as connection:
        logged = list(connection.execute(sa.select(t.change_log.c.seq).order_by(t.change_log.c.seq)).scalars())
    assert [commit.seq for commit in commits] == logged[-len(commits) :]
    assert logged == list(range(1, len(logged) + 1))


def test_a_commit_that_nobody_can_be_asked_about_any_more_is_not_done_again(
    proxied: Database, proxy: Proxy, database: Database
) -> None:
    proxied.write(bump)
    entered, go_on = threading.Event(), threading.Event()

    def hold(_tx: Transaction) -> None:
        entered.set()
        assert go_on.wait(20)
        raise Conflict("nothing to commit")

    held = proxied.submit(hold)
    assert entered.wait(20)
    together = [proxied.submit(bump) for _ in range(2)]
    proxy.cut = "for good"
    go_on.set()
    assert isinstance(held.exception(timeout=20), Conflict)
    while not proxy.cuts:
        time.sleep(0.01)
    proxied.close()
    for future in together:
        with pytest.raises(Unavailable, match="not known whether"):
            future.result(timeout=20)
    assert proxied.unheard_writes == 2
    assert bumps(database) == 3


def test_a_connection_that_the_server_ends_is_replaced(database: Database, server: DatabaseServer) -> None:
    database.write(bump)
    with database.read() as connection:
        end_connections(server, connection)
    entered, go_on = threading.Event(), threading.Event()
    tries = []

    def interrupted(tx: Transaction) -> None:
        tries.append(1)
        bump(tx)
        entered.set()
        assert go_on.wait(20)
        bump(tx)

    future = database.submit(interrupted)
    assert entered.wait(20)
    with database.read() as connection:
        end_connections(server, connection)
    go_on.set()
    future.result(timeout=20)
    assert len(tries) == 2
    assert bumps(database) == 3


def end_connections(server: DatabaseServer, own: sa.Connection) -> None:
    """Have the server end every connection to the database but one."""
    if server.backend == "postgresql":
        own.execute(
            sa.text(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
        )
        return
    wanted = "SELECT id FROM information_schema.processlist WHERE db = DATABASE() AND id <> CONNECTION_ID()"
    for number in own.execute(sa.text(wanted)).scalars().all():
        own.execute(sa.text(f"KILL {number}"))


def test_a_server_that_crashes_and_comes_back_loses_nothing(
    open_database: Callable[[], Database], server: DatabaseServer
) -> None:
    database = open_database()
    mirror = Mirror.follow(database)
    stop = threading.Event()
    done: list[int] = []

    def keep_writing() -> None:
        while not stop.is_set():
            database.write(bump)
            done.append(1)

    writers = [threading.Thread(target=keep_writing) for _ in range(4)]
    for writer in writers:
        writer.start()
    while len(done) < 20:
        time.sleep(0.01)
    server.kill()
    with pytest.raises(Unavailable), database.read() as connection:
        resource_classes.list_all(connection)
    with pytest.raises(Unavailable):
        mirror.snapshot()
    server.start()
    server.wait()
    before = len(done)
    deadline = time.monotonic() + 20
    while len(done) < before + 20 and time.monotonic() < deadline:
        time.sleep(0.01)
    stop.set()
    for writer in writers:
        writer.join(20)
        assert not writer.is_alive()
    assert bumps(database) == len(done) > before
    mirror.catch_up()
    assert mirror.seq == database.newest_seq()


def test_a_database_that_is_closed_while_its_server_is_away_fails_who_waits(
    open_database: Callable[[], Database], server: DatabaseServer
) -> None:
    database = open_database()
    database.write(bump)
    server.kill()
    future = database.submit(bump)
    closing = threading.Thread(target=database.close)
    time.sleep(0.1)
    closing.start()
    closing.join(20)
    server.start()
    server.wait()
    assert not closing.is_alive()
    assert isinstance(future.exception(timeout=1), Unavailable)
