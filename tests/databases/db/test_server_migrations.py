# SPDX-License-Identifier: Apache-2.0
"""Pages of migrations: order and markers; hosts with open migrations."""

from datetime import timedelta
from typing import Any

from kilonova.clock import utc_now
from kilonova.db import server_migrations
from kilonova.db.core.transaction import Transaction
from kilonova.db.database import Database
from kilonova.db.server_migrations import MigrationQuery
from kilonova.identifiers import new_uuid
from kilonova.model.server_migration import MigrationStatus, MigrationType, ServerMigration
from support.stored_servers import FLAVOR, store_server


def test_pages_of_migrations_and_which_hosts_have_open_ones(database: Database) -> None:
    server = store_server(database)

    def migration(status: MigrationStatus, dest: str) -> ServerMigration:
        return ServerMigration(
            uuid=new_uuid(),
            instance_uuid=server.uuid,
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
        assert listed(changed_before=utc_now() - timedelta(hours=1)) == []
        open_at = {host: server_migrations.open_at(connection, host) for host in ("source", "there", "over")}
    assert open_at == {"source": True, "there": True, "over": False}
