# SPDX-License-Identifier: Apache-2.0
"""Lists that are read from a replica of the database, and the age of their data.

The replica of these tests is a copy of the database, which falls behind until it is copied again.
"""

import shutil
import sqlite3
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
import sqlalchemy as sa

from kilonova.api.lists_from_replica import AGE
from kilonova.db.core import tables as t
from support.api_client import Answer
from support.control import Control, NewControl

FRESH = {"Cache-Control": "no-cache"}
LISTS = ("/servers", "/servers/detail", "/os-migrations", "/os-simple-tenant-usage")
Shown = tuple[list[str], str | None]


@pytest.fixture
def replica(sqlite_template: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(sqlite_template, tmp_path / "replica.db"))


def options(replica: Path, more: str = "replica_lists = true\n") -> str:
    return f"[database]\nslave_connection = sqlite:///{replica}\n{more}"


@pytest.fixture
def control(new_control: NewControl, replica: Path) -> Control:
    """A control process whose replica has the server ``old``, and not the server ``new``."""
    control = new_control(more=options(replica))
    control.boot(name="old")
    copy(control, replica)
    control.boot(name="new")
    return control


def copy(control: Control, replica: Path) -> None:
    with sqlite3.connect(control.folder / "kilonova.db") as source, sqlite3.connect(replica) as target:
        source.backup(target)


def shown(answer: Answer) -> Shown:
    names = [server["name"] for server in answer.body["servers"]]
    return names, answer.headers.get(AGE.lower())


def test_a_list_is_that_of_the_replica_and_says_how_old_it_is(control: Control, replica: Path) -> None:
    for path in ("/servers", "/servers/detail"):
        names, age = shown(control.member.get(path))
        assert names == ["old"]
        assert age is not None
        assert 0 <= int(age) <= 30
    for path in LISTS:
        assert AGE.lower() in control.admin.get(path).headers
    assert control.operator.get("/servers/count?all_tenants=1").body == {"count": 1}
    copy(control, replica)
    assert shown(control.member.get("/servers"))[0] == ["new", "old"]


def test_a_client_that_wants_the_newest_data_gets_them(control: Control) -> None:
    fresh = replace(control.member, headers=FRESH)
    assert shown(fresh.get("/servers")) == (["new", "old"], None)


def test_single_servers_and_other_lists_are_not_read_from_the_replica(control: Control) -> None:
    found = replace(control.admin, headers=FRESH).get("/servers?name=new&all_tenants=1")
    answer = control.member.get(f"/servers/{found.body['servers'][0]['id']}")
    assert (answer.status, AGE.lower() in answer.headers) == (200, False)
    assert AGE.lower() not in control.admin.get("/flavors").headers


def test_what_has_not_reached_the_replica_is_looked_up_in_the_database(control: Control) -> None:
    fresh = replace(control.member, headers=FRESH).get("/servers?name=new")
    marker = fresh.body["servers"][0]["id"]
    assert shown(control.member.get(f"/servers?marker={marker}")) == (["old"], None)
    refused = control.member.get("/servers?marker=8a5b6c1c-0000-4000-8000-000000000000")
    assert (refused.status, AGE.lower() in refused.headers) == (400, False)


def test_a_replica_that_is_too_far_behind_is_not_read(
    control: Control, replica: Path, caplog: pytest.LogCaptureFixture
) -> None:
    engine = sa.create_engine(f"sqlite:///{replica}")
    with engine.begin() as connection:
        newest = connection.execute(sa.select(sa.func.max(t.processes.c.last_seen_at))).scalar_one()
        connection.execute(sa.update(t.processes).values(last_seen_at=newest - timedelta(seconds=60)))
    engine.dispose()
    assert shown(control.member.get("/servers")) == (["new", "old"], None)
    assert "its data may be 6" in caplog.text


@pytest.mark.parametrize("more", ["", "replica_lists = false\n"])
def test_lists_are_not_read_from_a_replica_by_default(new_control: NewControl, replica: Path, more: str) -> None:
    control = new_control(more=options(replica, more))
    control.boot(name="new")
    assert shown(control.member.get("/servers")) == (["new"], None)
