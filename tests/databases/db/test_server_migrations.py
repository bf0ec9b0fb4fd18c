# SPDX-License-Identifier: Apache-2.0
"""Pages of migrations: order, markers, and hosts with open ones."""

from datetime import timedelta
from typing import Any

from kilonova.clock import utc_now
from kilonova.db import instances, server_migrations
from kilonova.db.core.transaction import Transaction
from kilonova.db.database import Database
from kilonova.db.server_migrations import MigrationQuery
from kilonova.identifiers import new_uuid
from kilonova.model.flavor import Flavor
from kilonova.model.instance import Instance, TaskState, VmState
from kilonova.model.server_migration import MigrationStatus, MigrationType, ServerMigration

UUID = new_uuid()
FLAVOR = Flavor("1", "f", 1, 512, 1)
START = utc_now().replace(microsecond=0)


def minutes(count: int) -> Any:
    return START + timedelta(minutes=count)


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
