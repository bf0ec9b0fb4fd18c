# SPDX-License-Identifier: Apache-2.0
"""A database restored from a backup knows less than the hosts: no guest is touched, and each stray is reported."""

import random
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from kilonova.db import stray_guests
from kilonova.db.core import tables as t
from kilonova.db.database import Database
from kilonova.model.found_guest import StrayGuest, StrayKind
from kilonova.model.instance import PowerState
from support.cell import Cell, host, start_cell
from support.manual_bus import ManualBus
from support.samples import sampled
from support.world import guests_on_disk

Rows = Mapping[str, list[Mapping[str, Any]]]


class Cloud:
    """Hosts with their guests, and control processes one after the other on one database."""

    def __init__(self, folder: Path, open_database: Callable[[], Database], hosts: int, room: int) -> None:
        self._folder = folder
        self._open_database = open_database
        self._hosts = tuple(
            host(f"node{number}", vcpus=room, memory_mib=512 * room, disk_gib=2 * room)
            for number in range(1, hosts + 1)
        )
        self.cell = self._start()

    def _start(self) -> Cell:
        return start_cell(self._folder, self._hosts, bus=ManualBus(), database=self._open_database())

    def boot(self, count: int, **asked: Any) -> list[str]:
        uuids = self.cell.boot(count, **asked)
        self.cell.bus.run()
        return uuids

    def back_up(self) -> Rows:
        with self.cell.database.read() as connection:
            return {
                table.name: [dict(row) for row in connection.execute(sa.select(table)).mappings()]
                for table in t.metadata.sorted_tables
            }

    def restore(self, backup: Rows) -> None:
        """Put a database as it was in the place of the present one, and start all over."""
        with self.cell.database._engines.writer.begin() as connection:
            relax = {"sqlite": "PRAGMA defer_foreign_keys = ON", "mariadb": "SET FOREIGN_KEY_CHECKS = 0"}
            if (statement := relax.get(connection.dialect.name)) is not None:
                connection.execute(sa.text(statement))
            for table in reversed(t.metadata.sorted_tables):
                connection.execute(sa.delete(table))
            for table in t.metadata.sorted_tables:
                if backup[table.name]:
                    connection.execute(sa.insert(table), backup[table.name])
            if connection.dialect.name == "mariadb":
                connection.execute(sa.text("SET FOREIGN_KEY_CHECKS = 1"))
        self.restart()

    def restart(self) -> None:
        self.cell.database.close()
        self.cell = self._start()
        self.cell.work_off(3)

    def guests(self) -> dict[str, set[str]]:
        return guests_on_disk(self._folder / "hypervisors")

    def odd(self) -> dict[tuple[str, str], StrayGuest]:
        with self.cell.database.read() as connection:
            return {(each.host, each.instance_uuid): each for each in stray_guests.list_page(connection)}

    def host_of(self, uuid: str) -> str:
        (name,) = (name for name, uuids in self.guests().items() if uuid in uuids)
        return name


@pytest.fixture
def cloud(open_database: Callable[[], Database], tmp_path: Path) -> Iterator[Callable[..., Cloud]]:
    made: list[Cloud] = []

    def make(hosts: int = 3, room: int = 8) -> Cloud:
        made.append(Cloud(tmp_path, open_database, hosts, room))
        return made[-1]

    yield make
    for each in made:
        each.cell.database.close()


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"], indirect=True)
def test_half_of_the_guests_came_after_the_backup(cloud: Callable[..., Cloud]) -> None:
    guests = sampled(2000, sample=200)
    many = cloud(hosts=20, room=guests // 20 + 10)
    before = many.boot(guests // 2)
    backup = many.back_up()
    after = many.boot(guests - len(before))
    there = many.guests()
    assert sum(map(len, there.values())) == guests
    many.restore(backup)
    assert many.guests() == there
    odd = many.odd()
    assert {uuid for _, uuid in odd} == set(after)
    assert {(each.oddity, each.power_state) for each in odd.values()} == {(StrayKind.UNKNOWN, PowerState.RUNNING)}
    many.restart()
    assert (many.guests(), many.odd()) == (there, odd)


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"], indirect=True)
def test_what_moved_and_what_was_deleted_since_the_backup(
    cloud: Callable[..., Cloud], caplog: pytest.LogCaptureFixture
) -> None:
    some = cloud(hosts=3)
    moved, resized, deleted, returned, same = some.boot(5, force_host="node1")
    some.cell.live_migrate(returned, "node2")  # it leaves node1, which is recorded in the backup
    some.cell.bus.run()
    backup = some.back_up()
    some.cell.live_migrate(moved, "node3")
    some.cell.live_migrate(returned, "node1")
    some.cell.migrate(resized, "node2")
    some.cell.bus.run()
    some.cell.confirm(resized)
    some.cell.delete(deleted)
    some.cell.bus.run()
    there = some.guests()
    assert {uuid: some.host_of(uuid) for uuid in (moved, resized, returned, same)} == {
        moved: "node3",
        resized: "node2",
        returned: "node1",
        same: "node1",
    }
    some.restore(backup)
    assert some.guests() == there
    assert {key: (each.oddity, each.recorded_host) for key, each in some.odd().items()} == {
        ("node3", moved): (StrayKind.ELSEWHERE, "node1"),
        ("node1", moved): (StrayKind.MISSING, "node1"),
        ("node2", resized): (StrayKind.ELSEWHERE, "node1"),
        ("node1", resized): (StrayKind.MISSING, "node1"),
        ("node1", returned): (StrayKind.NEWER, "node2"),
        ("node2", returned): (StrayKind.MISSING, "node2"),
        ("node1", deleted): (StrayKind.MISSING, "node1"),
    }
    assert len([line for line in caplog.messages if "it is kept" in line or "there is no guest" in line]) == 7
    caplog.clear()
    some.restart()
    assert some.guests() == there
    assert not caplog.messages, "each is told once"


@pytest.mark.parametrize("kind", ["sqlite"], indirect=True)
def test_a_server_that_was_built_anew_since_the_backup(cloud: Callable[..., Cloud]) -> None:
    """The backup was made while it was built on one host; in the end it was built on another one."""
    some = cloud(hosts=2)
    (uuid,) = some.cell.boot(force_host="node1")
    some.cell.bus.step()  # claimed and sent
    backup = some.back_up()
    some.cell.bus.run()
    some.cell.live_migrate(uuid, "node2")
    some.cell.bus.run()
    there = some.guests()
    assert there == {"node1": set(), "node2": {uuid}}
    some.restore(backup)
    assert some.guests()["node2"] == {uuid}
    assert some.odd()["node2", uuid].oddity is StrayKind.ELSEWHERE


@pytest.mark.parametrize("kind", ["sqlite"], indirect=True)
def test_a_restored_delete_is_carried_out_on_older_guests_only(cloud: Callable[..., Cloud]) -> None:
    """A record of the backup still counts: the host was away when the server was deleted, and is back."""
    some = cloud(hosts=2)
    (uuid,) = some.boot(1, force_host="node1")
    some.cell.bus.cut_off = {"node1"}
    some.cell.delete(uuid)
    some.cell.bus.run()
    backup = some.back_up()
    assert some.guests()["node1"] == {uuid}
    some.restore(backup)
    assert some.guests()["node1"] == set()
    assert some.odd() == {}


def test_guests_far_and_wide_are_told_apart(cloud: Callable[..., Cloud]) -> None:
    """Any mix of moves and deletes after a backup, whatever it was: nothing is touched."""
    chance = random.Random(7)
    some = cloud(hosts=4, room=16)
    uuids = some.boot(16)
    for uuid in chance.sample(uuids, 6):
        some.cell.live_migrate(uuid)
        some.cell.bus.run()
    backup = some.back_up()
    for uuid in chance.sample(uuids, 12):
        chance.choice([some.cell.live_migrate, some.cell.delete, some.cell.live_migrate])(uuid)
        some.cell.bus.run()
    some.boot(6)
    there = some.guests()
    some.restore(backup)
    assert some.guests() == there
    with some.cell.database.read() as connection:
        recorded = {
            (row.host, row.uuid)
            for row in connection.execute(
                sa.select(t.instances.c.host, t.instances.c.uuid).where(t.instances.c.deleted.is_(False))
            )
        }
    present = {(name, uuid) for name, found in there.items() for uuid in found}
    assert {key for key, each in some.odd().items() if each.is_stray} == present - recorded
    assert {key for key, each in some.odd().items() if not each.is_stray} == recorded - present
