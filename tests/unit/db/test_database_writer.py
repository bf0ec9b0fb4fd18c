# SPDX-License-Identifier: Apache-2.0
import contextlib
import sqlite3
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from kilonova import deadline
from kilonova.db.change_log.changes import Commit, LoggedAggregate
from kilonova.db.core import change_log
from kilonova.db.core import tables as t
from kilonova.db.core.change_log import decode_commit
from kilonova.db.core.transaction import Transaction, batched
from kilonova.db.database import Database
from kilonova.errors import ConfigurationError, Conflict, StorageFull, Unavailable


def add_class(name: str) -> Callable[[Transaction], str]:
    def job(tx: Transaction) -> str:
        tx.execute(sa.insert(t.resource_classes), {"name": name, "created_at": tx.now})
        tx.log("metrics", name, {})
        return name

    return job


def custom_names(database: Database) -> set[str]:
    with database.read() as connection:
        names = connection.execute(sa.select(t.resource_classes.c.name)).scalars()
        return {name for name in names if name.startswith("CUSTOM_")}


class Gate:
    """Holds the writer thread inside a job, so that what comes meanwhile waits together."""

    def __init__(self, database: Database) -> None:
        self._entered, self._open = threading.Event(), threading.Event()
        self.future = database.submit(self._wait)
        assert self._entered.wait(10)

    def _wait(self, _tx: Transaction) -> None:
        self._entered.set()
        assert self._open.wait(10)

    def open(self) -> None:
        self._open.set()
        self.future.result()


def test_many_threads_write_and_all_of_it_is_there(sqlite: Database) -> None:
    commits: list[Commit] = []
    sqlite.on_commit(commits.append)
    names = [f"CUSTOM_{n}" for n in range(300)]
    with ThreadPoolExecutor(32) as pool:
        assert list(pool.map(lambda name: sqlite.write(add_class(name)), names)) == names
    assert custom_names(sqlite) == set(names)
    assert [commit.seq for commit in commits] == list(range(1, len(commits) + 1))
    assert sorted(change.key for commit in commits for change in commit.changes) == sorted(names)


def test_what_waits_together_is_committed_together(sqlite: Database) -> None:
    commits: list[Commit] = []
    sqlite.on_commit(commits.append)
    gate = Gate(sqlite)
    futures = [sqlite.submit(add_class(f"CUSTOM_{n}")) for n in range(50)]
    gate.open()
    assert [future.result() for future in futures] == [f"CUSTOM_{n}" for n in range(50)]
    assert len(commits) == 1


def test_who_waits_writes_while_nobody_else_does_and_leaves_the_rest_to_the_writer_thread(sqlite: Database) -> None:
    ran_on: list[str] = []

    def add(name: str) -> Callable[[Transaction], str]:
        def job(tx: Transaction) -> str:
            ran_on.append(threading.current_thread().name)
            return add_class(name)(tx)

        return job

    with ThreadPoolExecutor(4, "caller") as pool:
        assert pool.submit(sqlite.write, add("CUSTOM_ALONE")).result(10) == "CUSTOM_ALONE"
        gate = Gate(sqlite)
        beside = [pool.submit(sqlite.write, add(f"CUSTOM_{n}")) for n in range(4)]
        gate.open()
        assert [future.result(10) for future in beside] == [f"CUSTOM_{n}" for n in range(4)]
    assert ran_on[0].startswith("caller")
    assert custom_names(sqlite) == {"CUSTOM_ALONE", *(f"CUSTOM_{n}" for n in range(4))}


def test_a_write_ends_when_it_is_done_not_with_the_deadline_of_who_runs_it(sqlite: Database) -> None:
    over = deadline.Deadline(0.0, deadline.nobody_left)
    count = sa.text(
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 300000) SELECT max(i) FROM n"
    )
    with deadline.running(over):
        assert sqlite.write(lambda tx: tx.execute(count).scalar()) == 300_000


def test_writes_that_wait_at_the_end_are_done(sqlite: Database) -> None:
    gate = Gate(sqlite)
    with ThreadPoolExecutor(5) as pool:
        waiting = [pool.submit(sqlite.write, add_class(f"CUSTOM_{n}")) for n in range(4)]
        while sqlite._writer._queue.qsize() < 4:
            time.sleep(0.001)
        closing = pool.submit(sqlite.close)
        gate.open()
        assert [future.result(10) for future in waiting] == [f"CUSTOM_{n}" for n in range(4)]
        closing.result(10)
    with pytest.raises(Unavailable):
        sqlite.write(add_class("CUSTOM_LATE"))


def test_a_job_that_fails_fails_alone_and_leaves_nothing(sqlite: Database) -> None:
    commits: list[Commit] = []
    sqlite.on_commit(commits.append)

    def half_done(tx: Transaction) -> None:
        add_class("CUSTOM_HALF")(tx)
        raise Conflict("no")

    gate = Gate(sqlite)
    before, broken, after = (sqlite.submit(job) for job in (add_class("CUSTOM_A"), half_done, add_class("CUSTOM_B")))
    duplicate = sqlite.submit(add_class("CUSTOM_A"))
    gate.open()
    assert (before.result(), after.result()) == ("CUSTOM_A", "CUSTOM_B")
    with pytest.raises(Conflict):
        broken.result()
    with pytest.raises(sa.exc.IntegrityError):
        duplicate.result()
    assert custom_names(sqlite) == {"CUSTOM_A", "CUSTOM_B"}
    assert [change.key for commit in commits for change in commit.changes] == ["CUSTOM_A", "CUSTOM_B"]


def test_a_job_alone_that_fails_leaves_nothing(sqlite: Database) -> None:
    commits: list[Commit] = []
    sqlite.on_commit(commits.append)

    def half_done(tx: Transaction) -> None:
        add_class("CUSTOM_HALF")(tx)
        tx.claims.append("claim")
        raise Conflict("no")

    with pytest.raises(Conflict):
        sqlite.write(half_done)
    assert custom_names(sqlite) == set()
    assert commits == []
    with sqlite.read() as connection:
        assert connection.execute(sa.select(t.change_log)).all() == []
        assert connection.execute(sa.select(t.change_counter.c.seq)).scalar() == 0


def test_a_savepoint_takes_rows_and_changes_and_claims_back(sqlite: Database) -> None:
    commits: list[Commit] = []
    sqlite.on_commit(commits.append)

    def job(tx: Transaction) -> None:
        add_class("CUSTOM_KEPT")(tx)
        with pytest.raises(Conflict), tx.savepoint():
            add_class("CUSTOM_LOST")(tx)
            tx.claims.append("lost")
            raise Conflict("no")
        tx.claims.append("kept")

    sqlite.write(job)
    assert custom_names(sqlite) == {"CUSTOM_KEPT"}
    assert [change.key for change in commits[0].changes] == ["CUSTOM_KEPT"]
    assert commits[0].claims == ("kept",)


def test_the_last_value_of_a_key_is_logged_in_its_last_place(sqlite: Database) -> None:
    commits: list[Commit] = []
    sqlite.on_commit(commits.append)

    def job(tx: Transaction) -> None:
        tx.log("metrics", "1", {"old": 1.0})
        tx.log("isolation", "1", 7)
        tx.log("metrics", "2", None)
        tx.log("metrics", "1", {"new": 2.0})

    sqlite.write(job)
    assert [(c.kind, c.key, c.value) for c in commits[0].changes] == [
        ("isolation", "1", 7),
        ("metrics", "2", None),
        ("metrics", "1", {"new": 2.0}),
    ]


def test_a_result_comes_after_the_commit_and_the_listeners(sqlite: Database) -> None:
    seen: list[tuple[bool, set[str]]] = []
    futures: list[Any] = []

    def listener(_commit: Commit) -> None:
        time.sleep(0.05)
        seen.append((futures[-1].done(), custom_names(sqlite)))

    sqlite.on_commit(listener)
    gate = Gate(sqlite)
    futures.append(sqlite.submit(add_class("CUSTOM_A")))
    gate.open()
    futures[-1].result()
    assert seen == [(False, {"CUSTOM_A"})]


def test_a_listener_that_fails_stops_nobody(sqlite: Database, caplog: pytest.LogCaptureFixture) -> None:
    heard: list[int] = []

    def broken(_commit: Commit) -> None:
        raise ZeroDivisionError

    sqlite.on_commit(broken)
    sqlite.on_commit(lambda commit: heard.append(commit.seq))
    assert sqlite.submit(add_class("CUSTOM_A")).result(10) == "CUSTOM_A"
    assert sqlite.submit(add_class("CUSTOM_B")).result(10) == "CUSTOM_B"
    assert heard == [1, 2]
    assert "A listener failed on commit 1" in caplog.text


def test_a_cancelled_write_is_left_out(sqlite: Database) -> None:
    gate = Gate(sqlite)
    unwanted, wanted = sqlite.submit(add_class("CUSTOM_A")), sqlite.submit(add_class("CUSTOM_B"))
    assert unwanted.cancel()
    gate.open()
    assert wanted.result(10) == "CUSTOM_B"
    assert custom_names(sqlite) == {"CUSTOM_B"}


def test_a_foreign_lock_is_waited_for(sqlite: Database) -> None:
    other = sqlite3.connect(str(sqlite.url.database), isolation_level=None, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")
    waiting = sqlite.submit(add_class("CUSTOM_A"))
    time.sleep(0.2)
    assert not waiting.done()
    other.execute("COMMIT")
    other.close()
    assert waiting.result(10) == "CUSTOM_A"


def test_a_lost_race_runs_the_batch_again_once_per_commit(sqlite: Database) -> None:
    runs: list[int] = []

    def busy_at_first(tx: Transaction) -> int:
        runs.append(1)
        add_class("CUSTOM_A")(tx)
        if len(runs) < 4:
            raise sa.exc.OperationalError("UPDATE", {}, sqlite3.OperationalError("database is locked"))
        return len(runs)

    gate = Gate(sqlite)
    first, second = sqlite.submit(busy_at_first), sqlite.submit(add_class("CUSTOM_B"))
    gate.open()
    assert (first.result(10), second.result(10)) == (4, "CUSTOM_B")
    assert custom_names(sqlite) == {"CUSTOM_A", "CUSTOM_B"}


def test_items_for_one_function_come_in_one_call_and_fail_alone(sqlite: Database) -> None:
    calls: list[list[str]] = []

    def write(tx: Transaction, items: Sequence[str]) -> Sequence[str]:
        calls.append(list(items))
        for item in items:
            add_class(item)(tx)
            if item == "CUSTOM_BAD":
                raise Conflict("bad")
        return [item.lower() for item in items]

    all_at_once = batched(write)
    gate = Gate(sqlite)
    names = ["CUSTOM_A", "CUSTOM_BAD", "CUSTOM_B"]
    futures = [sqlite.submit_batched(all_at_once, name) for name in names]
    gate.open()
    assert (futures[0].result(), futures[2].result()) == ("custom_a", "custom_b")
    with pytest.raises(Conflict):
        futures[1].result()
    # All at once; then, since one failed, again in frames: all, and halves of what still fails.
    assert calls == [names, names, names[:1], names[1:], ["CUSTOM_BAD"], ["CUSTOM_B"]]
    assert custom_names(sqlite) == {"CUSTOM_A", "CUSTOM_B"}


def test_a_full_disk_fails_who_needs_more_and_loses_nobody_else(sqlite: Database) -> None:
    """SQLite then takes back the whole transaction, and the savepoints of all jobs with it."""

    def limit(tx: Transaction) -> None:
        pages = tx.execute(sa.text("PRAGMA page_count")).scalar_one()
        tx.execute(sa.text(f"PRAGMA max_page_count={pages + 8}"))

    def big(tx: Transaction) -> None:
        tx.execute(sa.insert(t.rosters), {"digest": "big", "created_at": tx.now, "names": b"x" * 400_000})

    told: list[str] = []
    sqlite.on_commit(lambda commit: told.extend(change.key for change in commit.changes))
    sqlite.write(limit)
    gate = Gate(sqlite)
    jobs: list[Callable[[Transaction], Any]] = [add_class("CUSTOM_A"), big, add_class("CUSTOM_B")]
    futures = [sqlite.submit(job) for job in jobs]
    gate.open()
    assert (futures[0].result(), futures[2].result()) == ("CUSTOM_A", "CUSTOM_B")
    with pytest.raises(StorageFull):
        futures[1].result()
    assert custom_names(sqlite) == {"CUSTOM_A", "CUSTOM_B"} == set(told)


def test_bound_methods_are_one_function(sqlite: Database) -> None:
    class Recorder:
        def __init__(self) -> None:
            self.calls: list[int] = []

        def write(self, _tx: Transaction, items: Sequence[int]) -> Sequence[None]:
            self.calls.append(len(items))
            return [None] * len(items)

    recorder = Recorder()
    gate = Gate(sqlite)
    futures = [sqlite.submit_batched(recorder.write, n) for n in range(5)]
    gate.open()
    for future in futures:
        future.result()
    assert recorder.calls == [5]


def test_closing_finishes_what_is_queued_and_refuses_the_rest(sqlite: Database) -> None:
    gate = Gate(sqlite)
    queued = [sqlite.submit(add_class(f"CUSTOM_{n}")) for n in range(20)]
    closer = threading.Thread(target=sqlite.close)
    closer.start()
    gate.open()
    closer.join(10)
    assert [future.result(10) for future in queued] == [f"CUSTOM_{n}" for n in range(20)]
    with pytest.raises(Unavailable):
        sqlite.write(add_class("CUSTOM_LATE"))
    sqlite.close()
    again = Database(str(sqlite.url))
    assert custom_names(again) == {f"CUSTOM_{n}" for n in range(20)}
    again.close()


def test_no_write_is_lost_between_the_last_one_and_the_end(sqlite_template: Path) -> None:
    """Whoever got a future gets an answer, however close the end is."""
    for _ in range(20):
        database = Database(f"sqlite:///{sqlite_template}")
        answers: list[str] = []

        def submit(database: Database = database, answers: list[str] = answers) -> None:
            try:
                database.submit(lambda _tx: None).result(10)
                answers.append("done")
            except Unavailable:
                answers.append("closed")

        threads = [threading.Thread(target=submit) for _ in range(8)]
        for thread in threads[:4]:
            thread.start()
        closer = threading.Thread(target=database.close)
        closer.start()
        for thread in threads[4:]:
            thread.start()
        for thread in (*threads, closer):
            thread.join(15)
        assert len(answers) == 8


def test_writes_of_many_rows_make_no_files_elsewhere(sqlite: Database) -> None:
    """SQLite would open one in /var/tmp for a statement that may fail halfway, and fail where there is no room."""
    files: set[str] = set()

    def look() -> str:
        for opened in Path("/proc/self/fd").iterdir():
            with contextlib.suppress(OSError):
                files.add(str(opened.readlink()))
        return ""

    def job(tx: Transaction) -> None:
        driver: Any = tx.connection.connection.dbapi_connection
        driver.create_function("look", 0, look)
        row = "'CUSTOM_' || hex(randomblob(100)) || iif(value = 1999, look(), ''), '2026-01-01 00:00:00.000000'"
        numbers = {"numbers": str([*range(2_000)])}
        tx.execute(sa.text(f"INSERT INTO traits (name, created_at) SELECT {row} FROM json_each(:numbers)"), numbers)

    for _ in range(2):  # the second one touches all the pages that the first one has filled
        sqlite.write(job)
    assert any(file.endswith("kilonova.db-wal") for file in files)
    assert not [file for file in files if "etilqs" in file]


def test_a_reader_sees_one_state(sqlite: Database) -> None:
    with sqlite.read() as connection:
        names = sa.select(sa.func.count()).select_from(t.resource_classes)
        before = connection.execute(names).scalar()
        sqlite.write(add_class("CUSTOM_A"))
        assert connection.execute(names).scalar() == before


def test_log_rows_can_be_read_back(sqlite: Database) -> None:
    commits: list[Commit] = []
    sqlite.on_commit(commits.append)

    def job(tx: Transaction) -> None:
        tx.log("aggregate", "1", LoggedAggregate("uuid", "ü", ["h"], {"a": "b"}))
        tx.log("aggregate", "2", None)
        tx.claims.append("claim")

    sqlite.write(job)
    with sqlite.read() as connection:
        row = connection.execute(sa.select(t.change_log)).one()
    assert decode_commit(row.seq, row.body) == commits[0]


def test_the_log_is_trimmed_by_age(sqlite: Database) -> None:
    sqlite.write(add_class("CUSTOM_A"))
    sqlite.write(lambda tx: tx.execute(sa.update(t.change_log).values(created_at=tx.now - timedelta(hours=2))))
    sqlite.write(add_class("CUSTOM_B"))
    assert sqlite.write(lambda tx: change_log.trim(tx, timedelta(hours=1))) == 1
    with sqlite.read() as connection:
        assert connection.execute(sa.select(t.change_log.c.seq)).scalars().all() == [2]


@pytest.mark.parametrize("url", ["nonsense", "oracle://host/db", "sqlite://", "sqlite:///:memory:"])
def test_urls_that_cannot_be_used(url: str) -> None:
    with pytest.raises(ConfigurationError, match=r"\[database\] connection"):
        Database(url)
