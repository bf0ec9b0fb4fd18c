# SPDX-License-Identifier: Apache-2.0
"""A workflow that needs an absent host waits for it, and continues when the host returns."""

import logging
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import msgspec
import pytest
import sqlalchemy as sa

from kilonova.compute.agent import Agent
from kilonova.compute.sessions import start_agents
from kilonova.conductor.workflow_engine.retries import MAX_TRIES
from kilonova.config.settings import Settings
from kilonova.db import workflows
from kilonova.db.core import tables as t
from kilonova.db.workflows import WorkflowRow, state_of
from kilonova.errors import Conflict
from kilonova.identifiers import new_uuid
from kilonova.messaging.messages import AskStep
from kilonova.model.instance import PowerState, TaskState, VmState
from kilonova.model.requester import Requester
from support.absent_hosts import come_back, lose, vanish_after, vanish_before
from support.cell import RESCUE_IMAGE, Cell, NewCell, host

OPERATOR = Requester("req-operator", "olga", "operators")
HOSTS = host("node1"), host("node2")


@pytest.fixture
def cell(cell_of: NewCell) -> Cell:
    """Two hosts, and a server that runs on the first."""
    cell: Cell = cell_of(*HOSTS)
    boot(cell)
    return cell


def boot(cell: Cell) -> None:
    cell.boot(force_host="node1")
    cell.bus.run()


def the_server(cell: Cell) -> str:
    with cell.database.read() as connection:
        return str(connection.execute(sa.select(t.instances.c.uuid)).scalar_one())


def the_row(cell: Cell) -> WorkflowRow:
    with cell.database.read() as connection:
        (row,) = workflows.list_page(connection)
    return row


def state(cell: Cell, name: str = "node1") -> PowerState | None:
    return cell.drivers[name].list_guests().get(the_server(cell))


def revert_without_its_destination(cell: Cell) -> None:
    uuid = the_server(cell)
    cell.resize(uuid)
    cell.work_off()
    cell.bus.cut_off = {"node2"}
    cell.revert(uuid)
    cell.bus.run()


def test_a_wait_is_never_counted(cell: Cell) -> None:
    revert_without_its_destination(cell)
    for _ in range(3 * MAX_TRIES):
        cell.work_off()
    row = the_row(cell)
    assert (row.kind, row.step, row.awaited_host, row.stuck, row.tries) == (
        "revert-resize",
        "abandon",
        "node2",
        False,
        0,
    )
    assert state_of(row) == "awaiting-host"
    assert row.awaited_since is not None
    server = cell.instance(the_server(cell))
    assert (server.vm_state, server.task_state) == (VmState.RESIZED, TaskState.RESIZE_REVERTING)
    come_back(cell, "node2")
    server = cell.instance(the_server(cell))
    assert (server.vm_state, server.task_state, server.host) == (VmState.ACTIVE, None, "node1")
    cell.check()


def test_a_wait_is_a_line_in_the_log_and_no_error(cell: Cell, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    revert_without_its_destination(cell)
    cell.work_off()
    told = [record for record in caplog.records if " waits: " in record.getMessage()]
    expected = f"Server {the_server(cell)} waits: revert-resize at step abandon: host node2 is absent"
    assert [record.getMessage().split(" [")[0] for record in told] == [expected]
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR or record.exc_info]


def test_a_process_that_adopts_it_waits_too(cell: Cell) -> None:
    revert_without_its_destination(cell)
    since = the_row(cell).awaited_since
    again = cell.restart()
    again.bus.cut_off = {"node2"}
    again.work_off()
    row = the_row(again)
    assert (row.awaited_host, row.awaited_since, row.stuck) == ("node2", since, False)
    come_back(again, "node2")
    again.check()
    again.database.close()


def test_the_wait_may_be_limited(cell_of: NewCell) -> None:
    def limited(settings: Settings) -> Settings:
        return replace(settings, conductor=replace(settings.conductor, absent_host_timeout_s=1e-6))

    cell = cell_of(*HOSTS, adapt=limited)
    boot(cell)
    revert_without_its_destination(cell)
    cell.work_off()
    row = the_row(cell)
    assert (row.stuck, row.awaited_host) == (True, None)
    assert cell.instance(the_server(cell)).vm_state is VmState.ERROR
    cell.reconnect()
    cell.conductor.stuck.retry(row.uuid, OPERATOR)
    cell.work_off()
    assert cell.instance(the_server(cell)).vm_state is VmState.ACTIVE
    cell.check()


def test_an_operator_may_abandon_it(cell: Cell) -> None:
    revert_without_its_destination(cell)
    row = the_row(cell)
    with pytest.raises(Conflict, match="is not stuck: it continues when host node2 returns"):
        cell.conductor.stuck.retry(row.uuid, OPERATOR)
    _, left = cell.conductor.stuck.abandon(row.uuid, OPERATOR)
    assert left.hosts == ("node1", "node2")
    server = cell.instance(the_server(cell))
    assert (server.vm_state, server.task_state) == (VmState.ERROR, None)
    assert server.fault is not None
    assert server.fault.message == "The host of the instance cannot be reached."
    cell.work_off()
    assert not cell.conductor.runner.known, "this process has forgotten it"
    cell.delete(server.uuid)
    cell.work_off()
    come_back(cell, "node2")
    assert cell.find(server.uuid) is None
    cell.check()


def test_a_delete_does_not_wait(cell: Cell) -> None:
    revert_without_its_destination(cell)
    uuid = the_server(cell)
    cell.delete(uuid)
    cell.bus.run()
    assert cell.find(uuid) is None
    come_back(cell, "node2")
    cell.check()


ORDERS: dict[str, tuple[str, VmState, PowerState]] = {
    "stop": ("stop", VmState.STOPPED, PowerState.SHUTDOWN),
    "pause": ("pause", VmState.PAUSED, PowerState.PAUSED),
}


@pytest.mark.parametrize("vanish", [vanish_before, vanish_after])
@pytest.mark.parametrize("kind", ORDERS)
def test_an_order_that_may_have_arrived_is_repeated(
    cell: Cell, kind: str, vanish: Callable[[Cell, str, str], None]
) -> None:
    method, vm_state, power_state = ORDERS[kind]
    vanish(cell, method, "node1")
    cell.power(the_server(cell), kind)
    lose(cell, "node1")
    row = the_row(cell)
    assert (row.awaited_host, row.undoing, row.stuck) == ("node1", False, False)
    come_back(cell, "node1")
    server = cell.instance(the_server(cell))
    assert (server.vm_state, server.power_state, server.fault) == (vm_state, power_state, None)
    assert state(cell) is power_state
    cell.check()


def test_an_order_that_was_never_sent_fails_at_once(cell: Cell) -> None:
    cell.bus.cut_off = {"node1"}
    cell.power(the_server(cell), "stop")
    cell.bus.run()
    server = cell.instance(the_server(cell))
    assert (server.vm_state, server.task_state) == (VmState.ACTIVE, None)
    come_back(cell, "node1")
    cell.check()


def test_a_thawed_agent_tells_the_result_of_the_order(cell: Cell) -> None:
    """The agent was only frozen: it knows the step, and the order is not repeated."""
    agent = Agent("node1", cell.drivers["node1"], cell.bus)
    start_agents([agent], cell.bus)
    vanish_after(cell, "stop", "node1")
    cell.power(the_server(cell), "stop")
    lose(cell, "node1")
    assert the_row(cell).awaited_host == "node1"
    cell.drivers["node1"].stop = lambda *_, **__: pytest.fail("the guest is stopped twice")
    cell.bus.cut_off, cell.bus.muted = set(), set()
    start_agents([agent], cell.bus)
    cell.bus.sent.clear()
    cell.work_off()
    assert [type(message) for message in cell.bus.sent] == [AskStep]
    assert cell.instance(the_server(cell)).vm_state is VmState.STOPPED
    del cell.drivers["node1"].stop
    cell.check()


def test_another_action_waits_until_an_order_is_called_off(cell: Cell) -> None:
    """A hard reboot interrupts a pause that a frozen host may still finish: the reboot is the last to act."""
    vanish_before(cell, "pause", "node1")
    cell.power(the_server(cell), "pause")
    lose(cell, "node1")
    cell.power(the_server(cell), "hard-reboot")
    cell.work_off()
    with cell.database.read() as connection:
        rows = {row.kind: row for row in workflows.list_page(connection)}
    assert (rows["pause"].awaited_host, rows["hard-reboot"].waiting) == ("node1", True)
    come_back(cell, "node1")
    assert cell.instance(the_server(cell)).vm_state is VmState.ACTIVE
    assert state(cell) is PowerState.RUNNING
    cell.check()


def test_an_action_on_the_guest_of_a_server_without_a_host_is_refused(cell_of: NewCell) -> None:
    cell = cell_of()
    cell.boot()
    cell.bus.run()
    uuid = the_server(cell)
    assert cell.instance(uuid).vm_state is VmState.ERROR
    for act in (cell.rescue, partial(cell.power, kind="hard-reboot")):
        with pytest.raises(Conflict, match="is not ready: it has no host"):
            act(uuid)
    assert (cell.instance(uuid).vm_state, cell.instance(uuid).task_state) == (VmState.ERROR, None)


def test_a_journalled_workflow_of_a_server_without_a_host_fails_and_waits_for_nothing(cell_of: NewCell) -> None:
    cell = cell_of()
    cell.boot()
    cell.bus.run()
    uuid = the_server(cell)
    facts = {"version": 1, "host": "", "image": msgspec.to_builtins(RESCUE_IMAGE), "admin_password": "secret"}
    row = WorkflowRow(
        uuid=new_uuid(),
        kind="rescue",
        instance_uuid=uuid,
        reservation_id="",
        request_id="req-1",
        step="act",
        owner=cell.conductor.owner,
        facts=facts,
    )
    cell.database.write(lambda tx: workflows.insert(tx, [row], cell.conductor.owner))
    again = cell.restart()
    again.work_off()
    with again.database.read() as connection:
        assert workflows.list_page(connection) == ()
    assert again.instance(uuid).vm_state is VmState.ERROR
