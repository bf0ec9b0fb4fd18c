# SPDX-License-Identifier: Apache-2.0
"""Builds that exceed instance_build_timeout."""

import logging

import pytest

from kilonova.db import instance_actions
from kilonova.messaging.messages import DestroyGuest
from kilonova.model.instance import VmState
from support.cell import Cell, NewCell, host, lines_about


def action(cell: Cell, uuid: str, request_id: str) -> tuple[str | None, list[tuple[str, str | None, str | None]]]:
    """What became of an action, and its events with their hosts."""
    with cell.database.read() as connection:
        found = instance_actions.find(connection, uuid, request_id)
        events = instance_actions.events(connection, uuid, request_id)
    assert found is not None
    return found.message, [(event.event, event.result, event.host) for event in events]


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
    assert lines_about(uuid, caplog.messages) == [
        f"failed: build: the operation took longer than 0 s [req-{uuid}]",
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
