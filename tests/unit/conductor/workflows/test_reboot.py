# SPDX-License-Identifier: Apache-2.0
"""What servers show of their reboots and stops, and what becomes of those that fail."""

from dataclasses import replace
from datetime import timedelta

import pytest
import sqlalchemy as sa

from kilonova.db import hanging_reboots, instance_actions
from kilonova.db.core import tables as t
from kilonova.errors import ConcurrentUpdate, DriverError
from kilonova.messaging.messages import RebootGuest, StepId, StopGuest, TaskReached
from kilonova.model.image import Image
from kilonova.model.instance import PowerState, TaskState, VmState
from support.cell import IMAGE, Cell, NewCell, Running, host


def ordered(cell: Cell) -> StepId:
    """The step of the newest reboot that an agent was sent."""
    return [message.step for message in cell.bus.sent if isinstance(message, RebootGuest)][-1]


def tell(cell: Cell, uuid: str, task: TaskState, step: StepId | None = None, host_name: str = "node1") -> None:
    cell.conductor.handle(TaskReached(step or ordered(cell), host_name, uuid, task))
    cell.conductor.runner.task_progress.write()


def events(cell: Cell, uuid: str, request_id: str) -> list[tuple[str, str | None]]:
    with cell.database.read() as connection:
        return [(event.event, event.result) for event in instance_actions.events(connection, uuid, request_id)]


def test_a_server_shows_how_far_its_reboot_is(running: Running) -> None:
    cell, uuid = running
    cell.power(uuid, "reboot")
    cell.bus.step()
    for task in (TaskState.REBOOT_PENDING, TaskState.REBOOT_STARTED):
        tell(cell, uuid, task)
        assert cell.instance(uuid).task_state is task
    cell.bus.run()
    assert cell.check() == {uuid: VmState.ACTIVE}


def test_nothing_is_written_of_a_reboot_that_is_over(running: Running) -> None:
    cell, uuid = running
    writes: list[object] = []
    cell.power(uuid, "reboot")
    cell.bus.run()
    before = cell.instance(uuid)
    cell.database.write = writes.append  # type: ignore[method-assign]
    tell(cell, uuid, TaskState.REBOOT_STARTED)
    assert writes == []
    assert cell.instance(uuid) == before


@pytest.mark.parametrize(
    ("task", "late"),
    [
        (TaskState.REBOOT_PENDING, "a task that the server has left behind"),
        (TaskState.MIGRATING, "a task that no reboot shows"),
    ],
)
def test_what_comes_late_or_is_nonsense_changes_nothing(running: Running, task: TaskState, late: str) -> None:
    cell, uuid = running
    cell.power(uuid, "reboot")
    cell.bus.step()
    tell(cell, uuid, TaskState.REBOOT_STARTED)
    tell(cell, uuid, task)
    assert cell.instance(uuid).task_state is TaskState.REBOOT_STARTED, late
    cell.bus.run()
    cell.check()


def test_only_the_host_of_the_step_is_believed(running: Running) -> None:
    cell, uuid = running
    cell.power(uuid, "reboot")
    cell.bus.step()
    tell(cell, uuid, TaskState.REBOOT_STARTED, host_name="node2")
    tell(cell, uuid, TaskState.REBOOT_STARTED, step=replace(ordered(cell), attempt=9))
    assert cell.instance(uuid).task_state is TaskState.REBOOTING
    cell.bus.run()
    cell.check()


def test_progress_that_is_overtaken_by_the_end_is_not_written(running: Running) -> None:
    """It was noted while the step was under way, and is written only when the next reboot has begun."""
    cell, uuid = running
    progress = cell.conductor.runner.task_progress
    cell.power(uuid, "reboot")
    cell.bus.step()
    cell.conductor.handle(TaskReached(ordered(cell), "node1", uuid, TaskState.REBOOT_STARTED))

    def at_the_last_moment(_run: object) -> bool:
        cell.bus.run()
        cell.power(uuid, "reboot")
        return True

    progress._is_awaited = at_the_last_moment
    progress.write()
    assert cell.instance(uuid).task_state is TaskState.REBOOTING
    cell.bus.run()
    cell.check()


@pytest.mark.parametrize("kind", ["reboot", "hard-reboot"])
def test_a_reboot_whose_guest_runs_all_the_same_has_succeeded(running: Running, kind: str) -> None:
    cell, uuid = running

    def fail(*_: object) -> None:
        raise DriverError("The guest does not obey.")

    cell.drivers["node1"].soft_reboot = cell.drivers["node1"].hard_reboot = fail
    cell.power(uuid, kind)
    cell.bus.run()
    server = cell.instance(uuid)
    assert (server.vm_state, server.task_state, server.power_state) == (VmState.ACTIVE, None, PowerState.RUNNING)
    assert events(cell, uuid, f"req-{kind}") == [("compute_reboot_instance", "Success")]
    with cell.database.read() as connection:
        assert connection.execute(sa.select(t.instance_faults.c.message)).scalars().all() == [
            "The guest does not obey."
        ]


@pytest.mark.parametrize("kind", ["reboot", "hard-reboot"])
def test_a_reboot_brings_a_guest_back_that_is_gone(running: Running, kind: str) -> None:
    cell, uuid = running
    cell.drivers["node1"].destroy(uuid)
    cell.power(uuid, kind)
    cell.bus.run()
    assert events(cell, uuid, f"req-{kind}") == [("compute_reboot_instance", "Success")]
    assert cell.instance(uuid).power_state is PowerState.RUNNING
    assert cell.check() == {uuid: VmState.ACTIVE}


def test_a_guest_that_cannot_be_made_anew_leaves_the_server_in_error(cell_of: NewCell) -> None:
    cell = cell_of(host("node1"))
    (uuid,) = cell.boot()
    cell.bus.run()
    cell.drivers["node1"].destroy(uuid)
    cell.drivers["node1"].hypervisor.failures_left["spawn"] = -1
    cell.power(uuid, "hard-reboot")
    cell.bus.run()
    server = cell.instance(uuid)
    assert (server.vm_state, server.task_state, server.power_state) == (VmState.ERROR, None, PowerState.NOSTATE)
    cell.drivers["node1"].hypervisor.failures_left["spawn"] = 0
    cell.power(uuid, "hard-reboot")
    cell.bus.run()
    assert cell.check() == {uuid: VmState.ACTIVE}


@pytest.mark.parametrize(("said", "expected"), [("180", 180.0), ("0", 0.0), ("soon", None), (None, None)])
def test_an_image_says_how_long_its_guests_may_take_to_shut_down(
    cell_of: NewCell, said: str | None, expected: float | None
) -> None:
    cell = cell_of(host("node1"))
    properties = {} if said is None else {"os_shutdown_timeout": said}
    (uuid,) = cell.boot(image=Image(IMAGE.id, IMAGE.name, properties=properties))
    cell.bus.run()
    cell.database.write(lambda tx: tx.execute(sa.update(t.instances).values(image_properties=properties)))
    cell.power(uuid, "stop")
    cell.bus.run()
    assert [message.timeout_s for message in cell.bus.sent if isinstance(message, StopGuest)] == [expected]
    assert cell.check() == {uuid: VmState.STOPPED}


def test_a_soft_reboot_that_hangs_becomes_a_hard_one(running: Running) -> None:
    cell, uuid = running
    end_hanging = cell.conductor.operations.power.end_hanging_reboots
    cell.power(uuid, "reboot")
    assert end_hanging(timedelta(seconds=60)) == 0, "it has just begun"
    assert end_hanging(timedelta(0)) == 1
    assert end_hanging(timedelta(0)) == 0, "a hard one is left alone"
    cell.bus.run()
    assert [message.hard for message in cell.bus.sent if isinstance(message, RebootGuest)] == [True]
    assert cell.check() == {uuid: VmState.ACTIVE}


def test_a_reboot_that_ends_in_time_is_not_rebooted_again(running: Running) -> None:
    cell, uuid = running
    cell.power(uuid, "reboot")
    with cell.database.read() as connection:
        (hanging,) = hanging_reboots.since(connection, cell.database.clock.now(), 10)
    cell.bus.run()
    with pytest.raises(ConcurrentUpdate):
        hanging_reboots.require_unchanged(cell.instance(uuid), hanging)
    assert cell.conductor.operations.power.end_hanging_reboots(timedelta(0)) == 0
