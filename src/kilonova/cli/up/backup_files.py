# SPDX-License-Identifier: Apache-2.0
"""Backups of a cloud of ``kilonova up``: folders with databases, keys, images, guests and a list of files.

::

    BACKUP/backup.json       list of files with sizes and SHA-256 sums
           kilonova.db …     the data folder, without logs, locks and files written at every start

The databases are copied by SQLite's online backup, each from a single snapshot, while the cloud runs. Databases, images
and guests are copied at different moments, so this module makes them consistent. The backup has the image files that
are listed in its copy of Glance's database. It has all guests that existed before or after the copy of Kilonova's
database was made; after a restore, a host removes guests for which that database has a removal record, and reports and
keeps other stray guests.
"""

import hashlib
import json
import os
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from kilonova.bundled_services.private_file import write_private
from kilonova.errors import ConfigurationError, StorageFull, Unavailable

LIST = "backup.json"
_FORMAT = 1
DATABASES = ("kilonova.db", "keystone/keystone.db", "glance/glance.db", "neutron/neutron.db")
_IMAGES = "glance/images"
_HYPERVISORS = "hypervisors"
#: Folders that are not copied: logs, temporary files, and files that each start creates; the databases of OVN, which
#: Neutron fills again; also the folders of images and of simulated hypervisors, whose contents are copied separately.
_LEFT_OUT = (
    *("log", "broker", "agents", "glance/staging", "glance/tasks", "glance/locks", "neutron/tmp", "neutron/locks"),
    *("ovn", _IMAGES, _HYPERVISORS),
)
_LEFT_OUT_SUFFIXES = (".db", "-wal", "-shm", "-journal", ".lock", ".part", ".new")
_CHUNK = 2**20
_PAGES_AT_ONCE = 2_000
_TRIES = 5
_ACTIVE_IMAGES = """
    SELECT l.image_id, l.value FROM image_locations l JOIN images i ON i.id = l.image_id
    WHERE l.deleted = 0 AND i.deleted = 0 AND i.status IN ('active', 'deactivated')
"""

Progress = Callable[[str, int, int], None]


def back_up(data: Path, target: Path, on_progress: Progress = lambda _what, _done, _total: None) -> int:
    """Save the data folder of a cloud as ``target``, completely or not at all. Return the number of bytes saved.

    Raises: ConfigurationError if the cloud does not exist or ``target`` is in use; OSError.
    """
    if not (data / "kilonova.db").is_file():
        raise ConfigurationError(f"{data} is not the data folder of a cloud: it has no kilonova.db")
    with _written_as_a_whole(target) as draft:
        guests = _guests(data)
        for name in DATABASES:
            if (data / name).is_file():
                _copy_database(data / name, draft / name, name, on_progress)
        _copy_images(data, draft, on_progress)
        for host, known in {**guests, **_guests(data)}.items():
            merged = {**guests.get(host, {}), **known}
            _private_folder(draft / _HYPERVISORS)
            write_private(draft / _HYPERVISORS / host, json.dumps(merged))
        for name in sorted(_plain_files(data)):
            _copy(data / name, draft / name)
        files = {str(path.relative_to(draft)): _described(path) for path in sorted(draft.rglob("*")) if path.is_file()}
        made = datetime.now(UTC).isoformat(timespec="seconds")
        write_private(draft / LIST, json.dumps({"format": _FORMAT, "made": made, "files": files}, indent=1) + "\n")
    return sum(int(file["bytes"]) for file in files.values())


def restore(backup: Path, data: Path, on_progress: Progress = lambda _what, _done, _total: None) -> int:
    """Restore ``backup`` as the data folder ``data``, completely or not at all. Return the number of bytes restored.

    Raises: ConfigurationError if the backup is invalid or damaged, or ``data`` is in use; OSError.
    """
    files = _read_list(backup)
    total = sum(int(file["bytes"]) for file in files.values())
    done = 0
    with _written_as_a_whole(data) as draft:
        for name, expected in files.items():
            try:
                _copy(backup / name, draft / name)
            except FileNotFoundError:
                raise ConfigurationError(f"{backup} is damaged: {name} is missing") from None
            if _described(draft / name) != expected:
                raise ConfigurationError(f"{backup} is damaged: size or checksum of {name} differs")
            done += expected["bytes"]
            on_progress("restoring", done, total)
    return total


class _written_as_a_whole:  # noqa: N801 - used as a function
    """Context manager of a new folder. The folder gets its final name if the block succeeds; else it is removed."""

    def __init__(self, target: Path) -> None:
        self._target = target
        self._draft = target.with_name(f".{target.name}.{os.getpid()}.part")

    def __enter__(self) -> Path:
        if self._target.exists() and (not self._target.is_dir() or any(self._target.iterdir())):
            raise ConfigurationError(f"{self._target} exists and is not an empty folder")
        self._target.parent.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(self._draft, ignore_errors=True)
        self._draft.mkdir(mode=0o700)
        return self._draft

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is not None:
            shutil.rmtree(self._draft, ignore_errors=True)
            return
        for path in (*self._draft.rglob("*"), self._draft):
            _sync(path)
        self._draft.replace(self._target)  # the target may exist as an empty folder, which is replaced
        _sync(self._target.parent)


def _copy_database(source: Path, copy: Path, name: str, on_progress: Progress) -> None:
    try:
        _copy_pages(source, copy, name, on_progress)
    except sqlite3.Error as error:
        if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL:
            raise StorageFull(str(copy.parent), str(error)) from error
        raise Unavailable(f"{source} could not be saved: {error}") from error


def _copy_pages(source: Path, copy: Path, name: str, on_progress: Progress) -> None:
    _private_folder(copy.parent)
    os.close(os.open(copy, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    with closing(sqlite3.connect(source, timeout=30)) as theirs, closing(sqlite3.connect(copy)) as ours:
        # The read transaction makes the backup a single snapshot; without the transaction, SQLite would restart the
        # backup after each write.
        theirs.execute("BEGIN")
        theirs.execute("SELECT count(*) FROM sqlite_master").fetchone()
        theirs.backup(
            ours,
            pages=_PAGES_AT_ONCE,
            progress=lambda _status, left, total: on_progress(f"copying {name}", total - left, total),
            sleep=0.0,
        )
        theirs.execute("ROLLBACK")
        # The services expect databases in WAL mode. Closing the connection leaves a single file without a WAL.
        ours.execute("PRAGMA journal_mode = WAL")
        if (answer := ours.execute("PRAGMA quick_check").fetchone()[0]) != "ok":
            raise ConfigurationError(f"{source} is damaged: {answer}")


def _copy_images(data: Path, draft: Path, on_progress: Progress) -> None:
    """Copy the image files listed in the copied database. If an image is deleted meanwhile, copy the database again."""
    database = draft / "glance/glance.db"
    if not database.is_file():
        return
    _private_folder(draft / _IMAGES)
    for _ in range(_TRIES):
        names = _image_files(database)
        missing = False
        for number, name in enumerate(names):
            if not (draft / _IMAGES / name).exists():
                try:
                    _copy(data / _IMAGES / name, draft / _IMAGES / name)
                except FileNotFoundError:
                    missing = True
            on_progress("copying images", number + 1, len(names))
        if not missing:
            for extra in {path.name for path in (draft / _IMAGES).iterdir()} - set(names):
                (draft / _IMAGES / extra).unlink()
            return
        database.unlink()
        _copy_database(data / "glance/glance.db", database, "glance/glance.db", on_progress)
    raise Unavailable("some images in Glance's database have no file, or were deleted while they were being copied")


def _image_files(database: Path) -> list[str]:
    with closing(sqlite3.connect(database)) as connection:
        rows = connection.execute(_ACTIVE_IMAGES).fetchall()
    return sorted({Path(value).name for _, value in rows if value.startswith("file://")})


def _guests(data: Path) -> dict[str, dict[str, int]]:
    return {file.name: json.loads(file.read_bytes()) for file in (data / _HYPERVISORS).glob("*.json")}


def _plain_files(data: Path) -> Iterator[str]:
    for path in data.rglob("*"):
        name = str(path.relative_to(data))
        inside = any(name == each or name.startswith(f"{each}/") for each in _LEFT_OUT)
        if path.is_file() and not inside and name != "lock" and not name.endswith(_LEFT_OUT_SUFFIXES):
            yield name


def _read_list(backup: Path) -> dict[str, dict[str, Any]]:
    try:
        listed = json.loads((backup / LIST).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"{backup} is not a backup: {LIST} cannot be read") from error
    if listed.get("format") != _FORMAT:
        raise ConfigurationError(f"{backup} has the backup format of another release")
    files: dict[str, dict[str, Any]] = listed["files"]
    for name in files:
        if Path(name).is_absolute() or ".." in Path(name).parts:
            raise ConfigurationError(f"{backup} is not a valid backup: {LIST} contains the path {name}")
    return files


def _described(path: Path) -> dict[str, Any]:
    with path.open("rb") as file:
        return {"bytes": path.stat().st_size, "sha256": hashlib.file_digest(file, "sha256").hexdigest()}


def _copy(source: Path, copy: Path) -> None:
    with source.open("rb") as theirs:
        _private_folder(copy.parent)
        number = os.open(copy, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            with os.fdopen(number, "wb") as ours:
                shutil.copyfileobj(theirs, ours, _CHUNK)
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(copy)) from error


def _private_folder(folder: Path) -> None:
    if not folder.is_dir():
        _private_folder(folder.parent)
        folder.mkdir(mode=0o700)


def _sync(path: Path) -> None:
    number = os.open(path, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)
