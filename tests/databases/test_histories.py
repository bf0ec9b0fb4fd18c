# SPDX-License-Identifier: Apache-2.0
"""Pages of actions and of migrations on every database: order, markers, periods, and what is newest of each."""

from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy as sa

from kilonova.clock import utc_now
from kilonova.db import instance_actions, instances, server_migrations
from kilonova.db.core import tables as t
from kilonova.db.core.transaction import Transaction
from kilonova.db.database import Database
from kilonova.db.instance_actions import Action, ActionQuery, EndedEvent, NewAction
from kilonova.db.server_migrations import MigrationQuery
from kilonova.errors import InvalidRequest
from kilonova.identifiers import new_uuid
from kilonova.model.flavor import Flavor
from kilonova.model.instance import Instance, TaskState, VmState
from kilonova.model.server_migration import MigrationStatus, MigrationType, ServerMigration

UUID = new_uuid()
FLAVOR = Flavor("1", "f", 1, 512, 1)
START = utc_now().replace(microsecond=0)


def minutes(count: int) -> Any:
    return START + timedelta(minutes=count)


@pytest.fixture
def actions(database: Database) -> Database:
    """Actions that began in minutes 0, 10, 10 and 20; the first had an event that ended in minute 30."""

    def write(tx: Transaction) -> None:
        names = ("req-0", "req-1", "req-2", "req-3")
        instance_actions.begin(tx, [NewAction(UUID, "reboot", name, "u", "p") for name in names])
        instance_actions.begin(tx, [NewAction(new_uuid(), "reboot", "req-0", "u", "p")])
        instance_actions.add_events(
            tx,
            [
                EndedEvent(
                    instance_uuid=UUID, request_id="req-0", event="compute_reboot_instance", started_at=minutes(0)
                )
            ],
        )
        instance_actions.fail(tx, [(UUID, "req-3")])
        action, event = t.instance_actions.c, t.instance_action_events.c
        for name, begun in zip(names, (0, 10, 10, 20), strict=True):
            values = {"started_at": minutes(begun), "updated_at": minutes(25) if name == "req-3" else None}
            tx.execute(sa.update(t.instance_actions).where(action.request_id == name).values(values))
        tx.execute(
            sa.update(t.instance_action_events).where(event.instance_uuid == UUID).values(finished_at=minutes(30))
        )

    database.write(write)
    return database


def page(database: Database, **asked: Any) -> tuple[Action, ...]:
    with database.read() as connection:
        return instance_actions.list_page(connection, ActionQuery(UUID, **asked))


def names(found: tuple[Action, ...]) -> list[str]:
    return [action.request_id for action in found]


def test_pages_of_actions(actions: Database) -> None:
    found = page(actions)
    assert names(found) == ["req-3", "req-2", "req-1", "req-0"]
    assert [action.updated_at for action in found] == [minutes(25), minutes(10), minutes(10), minutes(30)]
    assert names(page(actions, limit=2)) == ["req-3", "req-2"]
    assert names(page(actions, limit=2, marker="req-2")) == ["req-1", "req-0"]
    assert page(actions, marker="req-0") == ()
    with pytest.raises(InvalidRequest):
        page(actions, marker="req-9")


def test_periods_of_actions(actions: Database) -> None:
    for period, expected in (
        ({"changed_since": minutes(26)}, ["req-0"]),
        ({"changed_since": minutes(25)}, ["req-3", "req-0"]),
        ({"changed_before": minutes(10)}, ["req-2", "req-1"]),
        ({"changed_before": minutes(29)}, ["req-3", "req-2", "req-1"]),
        ({"changed_since": minutes(5), "changed_before": minutes(25)}, ["req-3", "req-2", "req-1"]),
    ):
        assert names(page(actions, **period)) == expected


def test_the_events_of_an_action_are_those_of_its_server(actions: Database) -> None:
    with actions.read() as connection:
        (event,) = instance_actions.events(connection, UUID, "req-0")
        assert (event.event, event.finished_at) == ("compute_reboot_instance", minutes(30))
        assert instance_actions.events(connection, UUID, "req-1") == ()
        assert instance_actions.find(connection, UUID, "req-9") is None


def test_pages_of_migrations_and_which_hosts_have_open_ones(database: Database) -> None:
    server = Instance(0, UUID, "vm", "p", "u", VmState.ACTIVE, FLAVOR, task_state=TaskState.MIGRATING)

    def migration(status: MigrationStatus, dest: str) -> ServerMigration:
        return ServerMigration(
            uuid=new_uuid(),
            instance_uuid=UUID,
            migration_type=MigrationType.LIVE_MIGRATION,
            status=status,
            source_host="source",
            source_node="source",
            old_flavor=FLAVOR,
            new_flavor=FLAVOR,
            dest_host=dest,
            dest_node=dest,
            user_id="u",
            project_id="p",
        )

    rows = [migration(MigrationStatus.COMPLETED, "over"), migration(MigrationStatus.RUNNING, "there")]

    def write(tx: Transaction) -> None:
        instances.insert(tx, [(server, None)])
        for row in rows:
            server_migrations.insert(tx, row)

    database.write(write)
    over, running = (row.uuid for row in rows)
    with database.read() as connection:

        def listed(**asked: Any) -> list[str]:
            return [each.uuid for each in server_migrations.list_page(connection, MigrationQuery(**asked))]

        assert listed() == [running, over]
        assert listed(limit=1, marker=running) == [over]
        assert listed(host="there") == [running]
        assert listed(source_compute="there") == []
        assert listed(changed_before=minutes(-60)) == []
        open_at = {host: server_migrations.open_at(connection, host) for host in ("source", "there", "over")}
    assert open_at == {"source": True, "there": True, "over": False}

    def progress(tx: Transaction) -> None:
        instances.set_progress(tx, UUID, {TaskState.MIGRATING}, 40)
        instances.set_progress(tx, UUID, {TaskState.REBUILDING}, 70)

    database.write(progress)
    with database.read() as connection:
        assert instances.get(connection, UUID).progress == 40
