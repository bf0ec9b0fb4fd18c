# SPDX-License-Identifier: Apache-2.0
"""resize_confirm_window: resizes that are confirmed by a periodic task."""

import logging

import pytest

from kilonova.db import instance_actions, instances, server_migrations
from kilonova.model.instance import VmState
from kilonova.model.server_migration import MigrationStatus
from support.cell import Cell, NewCell, host, lines_about


def resized(cell_of: NewCell, *, stays: bool = False) -> tuple[Cell, str]:
    cell = cell_of(host("node1"), host("node2"))
    (uuid,) = cell.boot(force_host="node1")
    cell.bus.run()
    cell.resize(uuid, stays=stays)
    cell.bus.run()
    assert cell.instance(uuid).vm_state is VmState.RESIZED
    return cell, uuid


def test_a_resize_is_confirmed_after_a_while(cell_of: NewCell, caplog: pytest.LogCaptureFixture) -> None:
    cell, uuid = resized(cell_of)
    assert cell.confirm_unconfirmed(3600) == 0
    with caplog.at_level(logging.INFO):
        assert cell.confirm_unconfirmed() == 1
        assert cell.confirm_unconfirmed() == 0
        cell.bus.run()
    assert cell.check() == {uuid: "active"}
    assert cell.instance(uuid).flavor.name == "m1.small"
    words = [line.partition(" [")[0] for line in lines_about(uuid, caplog.messages)]
    assert words == ["is confirmed: its resize waited for 0 s", "confirmed: host node2"]
    with cell.database.read() as connection:
        (newest, *_) = instance_actions.list_page(connection, instance_actions.ActionQuery(uuid))
    assert (newest.action, newest.user_id, newest.message) == ("confirmResize", "", None)


def test_what_its_user_ends_is_not_confirmed(cell_of: NewCell) -> None:
    cell, uuid = resized(cell_of)
    cell.revert(uuid)
    assert cell.confirm_unconfirmed() == 0
    cell.bus.run()
    assert cell.check() == {uuid: "active"}
    assert cell.instance(uuid).host == "node1"


@pytest.mark.parametrize("stays", [False, True])
@pytest.mark.parametrize("state", [VmState.ACTIVE, VmState.ERROR])
def test_the_migration_of_a_server_whose_state_was_reset_ends_with_an_error(
    cell_of: NewCell, state: VmState, *, stays: bool
) -> None:
    cell, uuid = resized(cell_of, stays=stays)
    migration = cell.open_migration(uuid)
    assert migration is not None
    cell.database.write(lambda tx: instances.change(tx, uuid, vm_state=state, task_state=None))
    assert cell.confirm_unconfirmed() == 1
    cell.bus.run()
    with cell.database.read() as connection:
        assert server_migrations.get(connection, migration.uuid).status is MigrationStatus.ERROR
    assert cell.instance(uuid).vm_state is state
    if state is VmState.ACTIVE:
        assert cell.check() == {uuid: "active"}, "the source holds nothing any more"
