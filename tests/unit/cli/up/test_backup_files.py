# SPDX-License-Identifier: Apache-2.0
"""A backup is whole, private and exact, also while the cloud writes; or it is not there."""

import json
import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import pytest

from kilonova.cli.up import backup_files, cloud_files
from kilonova.errors import ConfigurationError

IMAGES = """
    PRAGMA journal_mode = WAL;
    CREATE TABLE images (id, deleted, status);
    CREATE TABLE image_locations (image_id, value, deleted);
"""


def execute(file: Path, script: str) -> None:
    with closing(sqlite3.connect(file)) as connection:
        connection.executescript(script)


def add_image(data: Path, name: str, content: str) -> None:
    (data / "glance" / "images").mkdir(exist_ok=True)
    (data / "glance" / "images" / name).write_text(content)
    row = f"INSERT INTO image_locations VALUES ('{name}', 'file:///else/where/{name}', 0)"
    execute(data / "glance" / "glance.db", f"INSERT INTO images VALUES ('{name}', 0, 'active'); {row}")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    cloud_files.make_folder(folder)
    execute(folder / "kilonova.db", "PRAGMA journal_mode = WAL; CREATE TABLE pairs (a, b)")
    execute(folder / "keystone" / "keystone.db", "CREATE TABLE users (name)")
    execute(folder / "glance" / "glance.db", IMAGES)
    (folder / "neutron" / "tmp").mkdir(parents=True)
    (folder / "neutron" / "tmp" / "start").touch()
    execute(folder / "neutron" / "neutron.db", "CREATE TABLE ports (id)")
    add_image(folder, "one", "first image")
    (folder / "keystone" / "fernet-keys").mkdir()
    (folder / "keystone" / "fernet-keys" / "0").write_text("key")
    (folder / "clouds.yaml").write_text("clouds")
    (folder / "lock").write_text("1")
    (folder / "log" / "control.log").write_text("long")
    (folder / "hypervisors" / "node1.json").write_text('{"a": 1}')
    return folder


def test_what_matters_is_saved_and_comes_back(data: Path, tmp_path: Path) -> None:
    backup, back = tmp_path / "backup", tmp_path / "back"
    backup_files.back_up(data, backup)
    saved = {str(path.relative_to(backup)) for path in backup.rglob("*") if path.is_file()}
    assert saved == {
        "backup.json",
        "clouds.yaml",
        "glance/glance.db",
        "glance/images/one",
        "hypervisors/node1.json",
        "neutron/neutron.db",
        "keystone/fernet-keys/0",
        "keystone/keystone.db",
        "kilonova.db",
    }
    for path in (backup, *backup.rglob("*")):
        assert path.stat().st_mode & 0o777 == (0o700 if path.is_dir() else 0o600), path
    backup_files.restore(backup, back)
    assert (back / "glance" / "images" / "one").read_text() == "first image"
    assert json.loads((back / "hypervisors" / "node1.json").read_text()) == {"a": 1}
    for path in (back, *back.rglob("*")):
        assert path.stat().st_mode & 0o077 == 0, path


def test_a_database_is_saved_as_it_was_at_one_moment(data: Path, tmp_path: Path) -> None:
    stop = threading.Event()

    def write() -> None:
        with closing(sqlite3.connect(data / "kilonova.db", timeout=30, isolation_level=None)) as connection:
            number = 0
            while not stop.is_set():
                number += 1
                row = f"INSERT INTO pairs VALUES ({number}, zeroblob(3000))"
                connection.executescript(f"BEGIN IMMEDIATE; {row}; {row}; COMMIT")

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for number in range(5):
            backup_files.back_up(data, tmp_path / f"backup{number}")
    finally:
        stop.set()
        writer.join()
    for number in range(5):
        with closing(sqlite3.connect(tmp_path / f"backup{number}" / "kilonova.db")) as connection:
            assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
            assert connection.execute("SELECT count(*) % 2 FROM pairs").fetchone() == (0,)


def test_an_image_that_comes_while_files_are_copied_is_left_out_or_whole(data: Path, tmp_path: Path) -> None:
    def meanwhile(what: str, _done: int, _total: int) -> None:
        if what == "copying images" and not (data / "glance" / "images" / "two").exists():
            add_image(data, "two", "second image")

    backup_files.back_up(data, tmp_path / "backup", meanwhile)
    assert [path.name for path in (tmp_path / "backup" / "glance" / "images").iterdir()] == ["one"]


def test_an_image_that_goes_while_files_are_copied_leaves_no_record(data: Path, tmp_path: Path) -> None:
    add_image(data, "two", "second image")

    def meanwhile(what: str, _done: int, _total: int) -> None:
        if what == "copying glance/glance.db" and (data / "glance" / "images" / "two").exists():
            (data / "glance" / "images" / "two").unlink()
            execute(data / "glance" / "glance.db", "UPDATE image_locations SET deleted = 1 WHERE image_id = 'two'")

    backup_files.back_up(data, tmp_path / "backup", meanwhile)
    with closing(sqlite3.connect(tmp_path / "backup" / "glance" / "glance.db")) as connection:
        left = connection.execute("SELECT image_id FROM image_locations WHERE deleted = 0").fetchall()
    assert left == [("one",)]


def test_a_folder_in_use_is_refused_and_nothing_is_left_half_done(data: Path, tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "letter").write_text("")
    with pytest.raises(ConfigurationError, match="exists and is not an empty folder"):
        backup_files.back_up(data, tmp_path / "full")
    with pytest.raises(ConfigurationError, match=r"no kilonova\.db"):
        backup_files.back_up(tmp_path / "nowhere", tmp_path / "backup")

    def fail(what: str, _done: int, _total: int) -> None:
        if what == "copying images":
            raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space"):
        backup_files.back_up(data, tmp_path / "backup", fail)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data", "full"]


@pytest.mark.parametrize("name", ["clouds.yaml", "glance/images/one", "backup.json"])
def test_a_damaged_backup_is_not_restored(data: Path, tmp_path: Path, name: str) -> None:
    backup_files.back_up(data, tmp_path / "backup")
    (tmp_path / "backup" / name).write_text("spoilt")
    with pytest.raises(ConfigurationError, match=name):
        backup_files.restore(tmp_path / "backup", tmp_path / "back")
    (tmp_path / "backup" / name).unlink()
    with pytest.raises(ConfigurationError, match=name):
        backup_files.restore(tmp_path / "backup", tmp_path / "back")
    assert not (tmp_path / "back").exists()
