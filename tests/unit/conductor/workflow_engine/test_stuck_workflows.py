# SPDX-License-Identifier: Apache-2.0
"""Workflows that can go neither on nor back: how they are left, retried, abandoned and superseded by a delete."""

import logging
from collections.abc import Callable
from dataclasses import replace

import pytest
import sqlalchemy as sa

from kilonova.conductor.workflow_engine.run import failure_of
from kilonova.db import server_migrations, workflows
from kilonova.db.core import tables as t
from kilonova.db.workflows import WorkflowRow
from kilonova.errors import Conflict, DriverError, NotFound
from kilonova.model.instance import VmState
from kilonova.model.requester import Requester
from support.cell import SMALL, Cell, NewCell, asker, host

OPERATOR = Requester("req-operator", "olga", "operators")
BIGGER = replace(SMALL, flavor_id="2", name="m1.small", vcpus=2)


@pytest.fixture
def cell(cell_of: NewCell) -> Cell:
    """Two hosts, and a server that runs on the first; a step may break twice."""
    cell: Cell = cell_of(host("node1"), host("node2"), max_tries=2)
    cell.boot(force_host="node1")
    cell.bus.run()
    return cell


def fail(*_: object, **__: object) -> None:
    raise DriverError("The disk hangs.")


def the_server(cell: Cell) -> str:
    with cell.database.read() as connection:
        return str(connection.execute(sa.select(t.instances.c.uuid)).scalar_one())


def the_row(cell: Cell) -> WorkflowRow:
    with cell.database.read() as connection:
        (row,) = workflows.list_page(connection)
    return row


def repair(cell: Cell) -> None:
    """The next process has whole drivers, and this one, too."""
    for driver in cell.drivers.values():
        for name in ("move_away", "return_home", "finish_move", "confirm_move"):
            driver.__dict__.pop(name, None)


def stick_before_the_guest_is_touched(cell: Cell, uuid: str) -> None:
    cell.drivers["node1"].move_away = cell.drivers["node1"].return_home = fail
    cell.conductor.operations.moves.resize(uuid, BIGGER, asker("req-move"), stays=False)


def stick_when_the_guest_was_touched(cell: Cell, uuid: str) -> None:
    cell.drivers["node2"].finish_move = cell.drivers["node1"].return_home = fail
    cell.conductor.operations.moves.resize(uuid, BIGGER, asker("req-move"), stays=False)


def stick_in_a_confirmation(cell: Cell, uuid: str) -> None:
    cell.conductor.operations.moves.resize(uuid, BIGGER, asker("req-resize"), stays=False)
    cell.work_off()
    cell.drivers["node1"].confirm_move = fail
    cell.conductor.operations.moves.confirm_resize(uuid, asker("req-move"))


def stick_past_the_point_of_no_return(cell: Cell, uuid: str) -> None:
    cell.drivers["node1"].confirm_move = fail
    cell.conductor.operations.live_migrations.begin(uuid, asker("req-move"))


WAYS: dict[Callable[[Cell, str], None], tuple[str, str, bool, VmState, str]] = {
    stick_before_the_guest_is_touched: ("resize", "move-away", True, VmState.ACTIVE, "node1"),
    stick_when_the_guest_was_touched: ("resize", "move-away", True, VmState.ERROR, "node1"),
    stick_in_a_confirmation: ("confirm-resize", "drop-source", False, VmState.ACTIVE, "node2"),
    stick_past_the_point_of_no_return: ("live-migrate", "clean-up", False, VmState.ACTIVE, "node2"),
}


@pytest.mark.parametrize("stick", WAYS)
def test_a_retry_ends_as_if_nothing_had_been_stuck(
    cell: Cell, stick: Callable[[Cell, str], None], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    uuid = the_server(cell)
    kind, step, undoing, settled, where = WAYS[stick]
    stick(cell, uuid)
    cell.work_off()
    row = the_row(cell)
    assert (row.kind, row.step, row.undoing, row.stuck) == (kind, step, undoing, True)
    failure = failure_of(row)
    assert failure is not None
    assert failure.stuck_because == "The disk hangs."
    server = cell.instance(uuid)
    assert (server.vm_state, server.task_state) == (VmState.ERROR, None)
    assert server.fault is not None
    assert server.fault.message == "The disk hangs."
    assert not cell.conductor.runner.known, "it waits for an operator, not in memory"
    repair(cell)
    cell.conductor.stuck.retry(row.uuid, OPERATOR)
    going_on = failure_of(the_row(cell))
    assert (None if going_on is None else going_on.stuck_because) == ("" if undoing else None)
    cell.work_off()
    assert cell.instance(uuid).vm_state is settled
    assert cell.instance(uuid).host == where
    cell.check()
    told = [record.getMessage() for record in caplog.records if " retried: " in record.getMessage()]
    assert told == [f"Server {uuid} retried: {kind} at step {step}, asked for by user olga [req-operator]"]


@pytest.mark.parametrize("stick", WAYS)
def test_a_retry_in_vain_is_stuck_again(cell: Cell, stick: Callable[[Cell, str], None]) -> None:
    uuid = the_server(cell)
    stick(cell, uuid)
    cell.work_off()
    first = the_row(cell)
    cell.conductor.stuck.retry(first.uuid, OPERATOR)
    assert not the_row(cell).stuck
    cell.work_off()
    again = the_row(cell)
    assert (again.stuck, again.step, again.undoing) == (True, first.step, first.undoing)
    assert again.failure == first.failure, "also what the server was before"
    repair(cell)
    cell.conductor.stuck.retry(first.uuid, OPERATOR)
    cell.work_off()
    assert cell.instance(uuid).vm_state is WAYS[stick][3]
    cell.check()


@pytest.mark.parametrize("stick", WAYS)
def test_what_is_abandoned_is_released_by_a_delete(
    cell: Cell, stick: Callable[[Cell, str], None], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    uuid = the_server(cell)
    stick(cell, uuid)
    cell.work_off()
    row = the_row(cell)
    given_up, left = cell.conductor.stuck.abandon(row.uuid, OPERATOR)
    assert given_up.uuid == row.uuid
    assert left.hosts == ("node1", "node2")
    with cell.database.read() as connection:
        assert left.migration == server_migrations.find_open(connection, uuid)
        assert left.migration is not None
        assert workflows.list_page(connection) == ()
        message = sa.select(t.instance_actions.c.message).where(t.instance_actions.c.request_id == "req-move")
        assert connection.execute(message).scalar_one() == "Error"
    assert cell.instance(uuid).vm_state is VmState.ERROR
    assert f"Server {uuid} abandoned: {row.kind} at step {row.step}, asked for by user olga [req-operator]" in [
        record.getMessage() for record in caplog.records
    ]
    repair(cell)
    cell.delete(uuid)
    cell.work_off()
    assert cell.find(uuid) is None
    cell.check()


@pytest.mark.parametrize("stick", WAYS)
def test_a_delete_needs_no_operator(cell: Cell, stick: Callable[[Cell, str], None]) -> None:
    uuid = the_server(cell)
    stick(cell, uuid)
    cell.work_off()
    repair(cell)
    cell.delete(uuid)
    cell.work_off()
    assert cell.find(uuid) is None
    cell.check()


def test_nothing_else_may_begin_on_top_of_it(cell: Cell) -> None:
    uuid = the_server(cell)
    stick_in_a_confirmation(cell, uuid)
    cell.work_off()
    before = the_row(cell)
    with pytest.raises(Conflict, match="its confirm-resize is stuck and waits for an administrator"):
        cell.power(uuid, "hard-reboot")
    assert the_row(cell) == before
    assert cell.instance(uuid).task_state is None


def test_it_stays_stuck_in_a_new_process(cell: Cell) -> None:
    uuid = the_server(cell)
    stick_in_a_confirmation(cell, uuid)
    cell.work_off()
    again = cell.restart()
    again.work_off()
    row = the_row(again)
    assert row.stuck
    assert not again.conductor.runner.known
    again.conductor.stuck.retry(row.uuid, OPERATOR)
    again.work_off()
    assert again.instance(uuid).vm_state is VmState.ACTIVE
    again.check()
    again.database.close()


def test_a_workflow_of_another_process_goes_on_there(cell: Cell) -> None:
    stick_in_a_confirmation(cell, the_server(cell))
    cell.work_off()
    cell.database.write(lambda tx: tx.execute(sa.update(t.workflows).values(owner="elsewhere")))
    cell.conductor.stuck.retry(the_row(cell).uuid, OPERATOR)
    cell.work_off()
    row = the_row(cell)
    assert (row.owner, row.stuck) == ("elsewhere", False)
    assert not cell.conductor.runner.known
    with cell.database.read() as connection:
        assert workflows.is_heir(connection, "elsewhere"), "so that it notices"


@pytest.mark.parametrize("act", ["retry", "abandon"])
def test_only_what_is_stuck(cell: Cell, act: str) -> None:
    uuid = the_server(cell)
    cell.power(uuid, "stop")
    row = the_row(cell)
    with pytest.raises(Conflict, match="is not stuck"):
        getattr(cell.conductor.stuck, act)(row.uuid, OPERATOR)
    cell.work_off()
    with pytest.raises(NotFound):
        getattr(cell.conductor.stuck, act)(row.uuid, OPERATOR)
    cell.check()
