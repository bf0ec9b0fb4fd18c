# SPDX-License-Identifier: Apache-2.0
"""Who else can read the files, and who else can reach an API without authentication."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from kilonova.cli.commands.api import require_protected
from kilonova.cli.wiring.database_lock import lock_database
from kilonova.config.address import Address
from kilonova.config.api import ApiSettings
from kilonova.db import schema
from kilonova.db.database import Database
from kilonova.errors import ConfigurationError
from support.control import start_control


@pytest.fixture(autouse=True)
def generous() -> Iterator[None]:
    """As a careless shell has it."""
    before = os.umask(0o000)
    yield
    os.umask(before)


def modes(folder: Path) -> dict[str, int]:
    return {path.name: path.stat().st_mode & 0o777 for path in folder.iterdir()}


def test_database_log_and_lock_are_private(tmp_path: Path) -> None:
    database = Database(f"sqlite:///{tmp_path / 'new' / 'kilonova.db'}")
    lock = lock_database(database)
    schema.upgrade(database)
    found = modes(tmp_path / "new")
    assert found == dict.fromkeys(["kilonova.db", "kilonova.db-wal", "kilonova.db-shm", "kilonova.db.lock"], 0o600)
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o700
    database.close()
    assert lock is not None
    lock.close()


def test_a_control_process_leaves_one_file_that_has_everything(tmp_path: Path) -> None:
    control = start_control(tmp_path)
    control.add_flavor()
    control.process.close()
    assert not list(tmp_path.glob("kilonova.db-*"))
    assert b"flavor1" in (tmp_path / "kilonova.db").read_bytes()


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.9.10", "::1", "localhost"])
def test_noauth2_may_listen_on_the_loopback(host: str) -> None:
    require_protected(ApiSettings("noauth2", Address(host, 8774)))


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.7", "2001:db8::1", "no-such-host.invalid"])
def test_noauth2_elsewhere_is_refused_unless_it_is_asked_for(host: str) -> None:
    with pytest.raises(ConfigurationError, match=r"\[api\] noauth2_beyond_loopback = true"):
        require_protected(ApiSettings("noauth2", Address(host, 8774)))
    require_protected(ApiSettings("noauth2", Address(host, 8774), noauth2_beyond_loopback=True))
    require_protected(ApiSettings("keystone", Address(host, 8774)))
