# SPDX-License-Identifier: Apache-2.0
"""instance_build_timeout and resize_confirm_window: what control processes end because it has taken too long."""

import logging

import pytest

from kilonova.db import instance_actions, instances, server_migrations
from kilonova.messaging.messages import DestroyGuest
from kilonova.model.instance import VmState
from kilonova.model.server_migration import MigrationStatus
from support.cell import Cell, NewCell, host


def action(cell: Cell, uuid: str, request_id: str) -> tuple[str | None, list[tuple[str, str | None, str | None]]]:
    """What became of an action, and its events with their hosts."""
    with cell.database.read() as connection:
        found = instance_actions.find(connection, uuid, request_id)
        events = instance_actions.events(connection, uuid, request_id)
    assert found is not None
    return found.message, [(event.event, event.result, event.host) for event in events]


def lines(caplog: pytest.LogCaptureFixture, uuid: str) -> list[str]:
    told = [record.getMessage() for record in caplog.records]
    return [line.removeprefix(f"Server {uuid} ") for line in told if line.startswith(f"Server {uuid} ")]


def test_a_build_that_takes_too_long_is_given_up(cell_of: NewCell, caplog: pytest.LogCaptureFixture) -> None:
    cell = cell_of(host("node1"))
    (uuid,) = cell.boot()
    while not cell.bus.sent:
        cell.bus.step()
    assert cell.time_out_builds(3600) == 0
    with caplog.at_level(logging.INFO):
        assert cell.time_out_builds() == 1
        assert cell.time_out_builds() == 0
        server = cell.instance(uuid)
        assert (server.vm_state, server.task_state) == (VmState.ERROR, None), "at once, whatever the host does"
        assert server.fault is not None
        assert server.fault.message == "The build took longer than 0 s."
        assert "node1" in server.fault.details
        cell.work_off()
    assert isinstance(cell.bus.sent[-1], DestroyGuest)
    assert cell.check() == {uuid: "error"}
    assert action(cell, uuid, f"req-{uuid}") == (
        "Error",
        [("compute__do_build_and_run_instance", "Error", "node1")],
    )
    assert lines(caplog, uuid) == [
        f"failed: build: it took longer than 0 s [req-{uuid}]",
        f"interrupted: build: timeout [req-{uuid}]",
    ]


def test_a_build_without_a_host_is_given_up(cell_of: NewCell) -> None:
    cell = cell_of(host("node1"))
    (uuid,) = cell.boot()
    assert cell.time_out_builds() == 1
    cell.work_off()
    assert cell.check() == {uuid: "error"}
    cell.delete(uuid)
    cell.work_off()
    assert cell.check() == {}


def test_a_server_that_was_built_is_not_timed_out(cell_of: NewCell) -> None:
    cell = cell_of(host("node1"))
    (uuid,) = cell.boot()
    cell.bus.run()
    cell.power(uuid, "stop")
    assert cell.time_out_builds() == 0
    cell.bus.run()
    assert cell.check() == {uuid: "stopped"}


def test_many_builds_are_given_up_in_pieces(cell_of: NewCell) -> None:
    cell = cell_of(host("node1", vcpus=80, memory_mib=80 * 512))
    cell.boot(60)
    assert [cell.time_out_builds(), cell.time_out_builds(), cell.time_out_builds()] == [50, 10, 0]
    cell.work_off()
    assert set(cell.check().values()) == {"error"}


# --- resize_confirm_window --------------------------------------------------------------------------------------------


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
    words = [line.partition(" [")[0] for line in lines(caplog, uuid)]
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


# --- rescue_timeout ---------------------------------------------------------------------------------------------------


def test_a_rescued_server_is_unrescued_after_a_while(cell_of: NewCell, caplog: pytest.LogCaptureFixture) -> None:
    cell = cell_of(host("node1"))
    rescued, running = cell.boot(2)
    cell.bus.run()
    launched_at = cell.instance(rescued).launched_at
    cell.rescue(rescued)
    assert cell.unrescue_forgotten() == 0, "it is only being rescued"
    cell.bus.run()
    since = cell.instance(rescued).launched_at
    assert launched_at is not None
    assert since is not None
    assert since > launched_at
    assert cell.unrescue_forgotten(3600) == 0
    with caplog.at_level(logging.INFO):
        assert cell.unrescue_forgotten() == 1
        assert cell.unrescue_forgotten() == 0
        cell.bus.run()
    assert cell.check() == {rescued: "active", running: "active"}
    words = [line.partition(" [")[0] for line in lines(caplog, rescued)]
    assert words == ["is unrescued: it was rescued 0 s ago", "unrescued: host node1"]
