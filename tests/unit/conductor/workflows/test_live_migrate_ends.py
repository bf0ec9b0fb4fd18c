# SPDX-License-Identifier: Apache-2.0
"""How live migrations end that somebody wanted to end sooner, and that ended by themselves first."""

from kilonova.db import server_migrations
from kilonova.messaging.messages import LiveMigrate
from kilonova.model.instance import VmState
from kilonova.model.server_migration import MigrationStatus, ServerMigration
from support.cell import Cell, NewCell, asker, host


def copying(cell: Cell) -> str:
    """A server whose memory is being copied."""
    (uuid,) = cell.boot(force_host="a")
    cell.bus.run()
    cell.conductor.operations.live_migrations.begin(uuid, asker("req-live"))
    while not any(isinstance(message, LiveMigrate) for message in cell.bus.sent):
        assert cell.bus.step()
    return uuid


def migration_of(cell: Cell, uuid: str) -> ServerMigration:
    with cell.database.read() as connection:
        (migration,) = server_migrations.list_page(connection, server_migrations.MigrationQuery(instance_uuid=uuid))
    return migration


def abort(cell: Cell, uuid: str) -> None:
    operations, migration = cell.conductor.operations, migration_of(cell, uuid)
    operations.live_migrations.abort(migration, asker("req-abort"), {migration.status})


def ended(cell: Cell, uuid: str) -> MigrationStatus:
    return migration_of(cell, uuid).status


def test_one_that_fails_after_all_when_it_was_to_be_forced_leaves_the_server_as_it_was(cell_of: NewCell) -> None:
    cell = cell_of(host("a", failing_live_migrations=1), host("b"))
    uuid = copying(cell)
    migration = migration_of(cell, uuid)
    operations = cell.conductor.operations
    operations.live_migrations.force_complete(migration, asker("req-force"), {migration.status})
    cell.bus.run()
    server = cell.instance(uuid)
    assert (server.vm_state, server.task_state, server.host) == (VmState.ACTIVE, None, "a")
    assert ended(cell, uuid) is MigrationStatus.ERROR
    cell.check()


def test_an_abort_that_comes_too_late_changes_nothing(cell_of: NewCell) -> None:
    cell = cell_of(host("a"), host("b"))
    uuid = copying(cell)
    while len(cell.bus.replies) < 3:
        assert cell.bus.step()
    abort(cell, uuid)
    cell.bus.run()
    server = cell.instance(uuid)
    assert (server.vm_state, server.task_state, server.host) == (VmState.ACTIVE, None, "b")
    assert ended(cell, uuid) is MigrationStatus.COMPLETED
    cell.check()


def test_one_that_is_aborted_stays(cell_of: NewCell) -> None:
    cell = cell_of(host("a"), host("b"))
    uuid = copying(cell)
    abort(cell, uuid)
    cell.bus.run()
    server = cell.instance(uuid)
    assert (server.vm_state, server.task_state) == (VmState.ACTIVE, None)
    assert (server.host, ended(cell, uuid)) in {("a", MigrationStatus.CANCELLED), ("b", MigrationStatus.COMPLETED)}
    cell.check()


def test_a_delete_ends_it_and_leaves_nothing(cell_of: NewCell) -> None:
    cell = cell_of(host("a"), host("b"))
    uuid = copying(cell)
    cell.delete(uuid)
    cell.bus.run()
    assert cell.check() == {}
