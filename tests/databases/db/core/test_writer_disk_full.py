# SPDX-License-Identifier: Apache-2.0
"""A full disk: one plain refusal, one log line, no partial write, and normal work once there is room again."""

import io
import logging
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from kilonova.db.core import tables as t
from kilonova.db.core.transaction import Transaction
from kilonova.db.database import Database
from kilonova.errors import StorageFull
from kilonova.logs.formatter import OneLineFormatter
from support.control import start_control
from support.served import Served
from support.small_disk import SmallDisk, small_disk

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount a file system")

#: How each database says that its disk is full; those of the servers say so themselves, with the codes that count.
REFUSALS = {
    "postgresql": "DO $$ BEGIN RAISE EXCEPTION 'could not extend file' USING ERRCODE = '53100'; END $$",
    "mariadb": "SIGNAL SQLSTATE 'HY000' SET MYSQL_ERRNO = 1021, MESSAGE_TEXT = 'Disk full'",
}


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> Iterator[io.StringIO]:
    caplog.set_level(logging.INFO, "kilonova.db.core.writer")
    written = io.StringIO()
    handler = logging.StreamHandler(written)
    handler.setFormatter(OneLineFormatter(logging.Formatter("%(levelname)s %(message)s")))
    logging.getLogger().addHandler(handler)
    yield written
    logging.getLogger().removeHandler(handler)


def grow(size: int) -> Callable[[Transaction], None]:
    def job(tx: Transaction) -> None:
        row = {"digest": os.urandom(20).hex(), "created_at": tx.now, "names": os.urandom(size)}
        tx.execute(sa.insert(t.rosters), row)

    return job


@pytest.mark.parametrize("kind", ["sqlite"], indirect=True)
@pytest.mark.parametrize("beside", [0, 3])
def test_an_sqlite_file_that_may_not_grow(database: Database, log: io.StringIO, beside: int) -> None:
    database.write(grow(10))
    connection = database._writer._connection._connection
    assert connection is not None
    pages = connection.exec_driver_sql("PRAGMA page_count").scalar()
    connection.exec_driver_sql(f"PRAGMA max_page_count = {pages}")
    connection.commit()
    futures = [database.submit(grow(1_000_000)) for _ in range(beside + 1)]
    for future in futures:
        with pytest.raises(StorageFull, match="There is no disk space left to store this; nothing was changed"):
            future.result(timeout=20)
    (line,) = log.getvalue().splitlines()
    assert line.startswith(f"ERROR Writes are refused: there is no room on the disk of {database.url.database}: ")
    database._engines.writer.dispose()  # the limit was the connection's
    database.write(grow(1_000_000))
    assert log.getvalue().splitlines()[1:] == ["INFO Writes succeed again: the database has disk space"]


@pytest.mark.parametrize("kind", list(REFUSALS), indirect=True)
def test_a_server_whose_disk_is_full(database: Database, log: io.StringIO, kind: str) -> None:
    def refused(tx: Transaction) -> None:
        grow(10)(tx)
        tx.connection.exec_driver_sql(REFUSALS[kind])

    for _ in range(2):
        with pytest.raises(StorageFull):
            database.write(refused)
    assert len(log.getvalue().splitlines()) == 1
    database.write(grow(10))
    with database.read() as connection:
        assert connection.execute(sa.select(sa.func.count()).select_from(t.rosters)).scalar() == 1
    assert log.getvalue().splitlines()[1:] == ["INFO Writes succeed again: the database has disk space"]


@pytest.mark.parametrize("kind", ["mariadb"], indirect=True)
def test_a_table_that_is_full(database: Database) -> None:
    def job(tx: Transaction) -> None:
        tx.connection.exec_driver_sql("SET SESSION max_heap_table_size = 16384")
        tx.connection.exec_driver_sql("CREATE TEMPORARY TABLE small (a CHAR(200)) ENGINE = MEMORY")
        for _ in range(200):
            tx.connection.exec_driver_sql("INSERT INTO small VALUES ('x')")

    with pytest.raises(StorageFull):
        database.write(job)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    with small_disk(tmp_path / "disk") as disk:
        yield disk


@needs_root
def test_a_cloud_on_a_full_disk_refuses_and_goes_on_when_there_is_room(disk: SmallDisk, log: io.StringIO) -> None:
    control = start_control(disk.folder)
    try:
        control.add_flavor()
        first = control.boot()
        disk.fill()
        before = control.everything()
        answers = [control.ask(name=f"vm{number}" * 60) for number in range(3)]
        assert [answer.status for answer in answers] == [507] * 3
        assert answers[0].fault[0] == "insufficientStorage"
        written = control.placement.post("/resource_providers", {"name": "p" * 200})
        assert (written.status, written.error["title"]) == (507, "Insufficient Storage")
        assert control.member.get("/servers/detail").status == 200
        assert control.everything() == before
        assert control.member.delete(f"/servers/{first['id']}").status in (204, 507)
        text = log.getvalue()
        assert text.count("ERROR ") == 1
        assert f"Writes are refused: there is no room on the disk of {disk.folder}/kilonova.db" in text
        assert "Traceback" not in text
        disk.make_room()
        second = control.boot()
        assert second["status"] == "ACTIVE"
        control.process.conductor.runner.retry_broken()
        assert second["id"] in control.check()
        assert "INFO Writes succeed again: the database has disk space" in log.getvalue()
    finally:
        control.process.close()


@needs_root
def test_a_start_on_a_full_disk_is_one_line(disk: SmallDisk) -> None:
    served = Served(disk.folder)
    served.log = disk.folder.parent / "log"
    disk.fill()
    ended = served.run()
    assert ended.returncode == 1
    (line,) = ended.stderr.splitlines()
    assert line.startswith("kilonova: there is no room on the disk of ")
    disk.make_room()
    served.start()
    served.stop()
