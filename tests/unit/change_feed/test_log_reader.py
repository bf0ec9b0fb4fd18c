# SPDX-License-Identifier: Apache-2.0
import orjson
import pytest
import sqlalchemy as sa

from kilonova.change_feed import log_reader
from kilonova.change_feed.events import Batch
from kilonova.change_feed.log_reader import newest, read_batch
from kilonova.db.change_log.changes import LoggedProcess
from kilonova.db.core import tables as t
from kilonova.db.database import Database


def commit(database: Database, *names: str) -> None:
    def job(tx: object) -> None:
        for name in names:
            tx.log("process", name, LoggedProcess(None))  # type: ignore[attr-defined]

    database.write(job)


def batch_after(database: Database, after: int) -> Batch:
    with database.read() as connection:
        return read_batch(connection, after)


def last(database: Database) -> int:
    with database.read() as connection:
        return newest(connection)


def test_commits_are_read_in_their_order(database: Database) -> None:
    start = last(database)
    assert batch_after(database, start) == Batch(start)
    commit(database, "a", "b")
    commit(database, "c")
    batch = batch_after(database, start)
    assert (batch.reached, batch.is_reload) == (start + 2, False)
    told = [[change["id"] for change in orjson.loads(text)["changes"]] for _, text in batch.events]
    assert told == [["a", "b"], ["c"]]
    assert batch_after(database, start + 1).events == batch.events[1:]


def test_a_batch_is_bounded_by_commits_and_by_bytes(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    start = last(database)
    for _ in range(5):
        commit(database, "a")
    monkeypatch.setattr(log_reader, "MOST_COMMITS", 3)
    assert batch_after(database, start).reached == start + 3
    monkeypatch.setattr(log_reader, "ENOUGH", 10)
    assert batch_after(database, start).reached == start + 1


def test_what_cannot_be_continued_is_to_be_loaded_again(database: Database) -> None:
    start = last(database)
    for _ in range(3):
        commit(database, "a")
    log = t.change_log

    def is_reload(after: int) -> bool:
        return batch_after(database, after) == Batch(last(database), is_reload=True)

    assert is_reload(last(database) + 1), "in the future"
    database.write(lambda tx: tx.execute(sa.update(log).where(log.c.seq == start + 3).values(body=b'{"version": 99}')))
    assert is_reload(start + 2), "of a newer release"
    database.write(lambda tx: tx.execute(sa.delete(log).where(log.c.seq == start + 1)))
    assert is_reload(start), "trimmed"
    database.write(lambda tx: tx.execute(sa.delete(log)))
    assert is_reload(start)
    newest = last(database)
    assert batch_after(database, newest) == Batch(newest), "nothing is missing"
