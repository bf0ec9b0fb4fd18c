# SPDX-License-Identifier: Apache-2.0
import pytest

from kilonova.errors import DriverError, NotFound, UnexpectedTaskState
from kilonova.messaging.messages import DestroyGuest, RebootGuest
from kilonova.model.instance import PowerState, TaskState, VmState
from support.cell import NewCell, Running, asker, host


def fail(*_args: object) -> None:
    raise DriverError("The guest does not obey.")


@pytest.mark.parametrize(
    ("kind", "task", "settled", "power"),
    [
        ("stop", TaskState.POWERING_OFF, VmState.STOPPED, PowerState.SHUTDOWN),
        ("reboot", TaskState.REBOOTING, VmState.ACTIVE, PowerState.RUNNING),
        ("hard-reboot", TaskState.REBOOTING_HARD, VmState.ACTIVE, PowerState.RUNNING),
    ],
)
def test_power_actions(running: Running, kind: str, task: TaskState, settled: VmState, power: PowerState) -> None:
    cell, uuid = running
    cell.power(uuid, kind)
    assert cell.instance(uuid).task_state is task
    cell.bus.run()
    instance = cell.instance(uuid)
    assert (instance.vm_state, instance.task_state, instance.power_state) == (settled, None, power)
    cell.check()


def test_start_after_stop(running: Running) -> None:
    cell, uuid = running
    cell.power(uuid, "stop")
    cell.bus.run()
    cell.power(uuid, "start")
    cell.bus.run()
    instance = cell.instance(uuid)
    assert (instance.vm_state, instance.power_state) == (VmState.ACTIVE, PowerState.RUNNING)
    cell.check()


@pytest.mark.parametrize("kind", ["stop", "reboot", "hard-reboot"])
def test_an_action_needs_the_state_it_was_asked_in(running: Running, kind: str) -> None:
    cell, uuid = running
    cell.power(uuid, "stop")
    with pytest.raises(UnexpectedTaskState):
        cell.power(uuid, kind)
    cell.bus.run()
    assert cell.instance(uuid).vm_state is VmState.STOPPED, "the action under way goes on"
    cell.check()


def test_a_hard_reboot_takes_over_from_a_soft_one(running: Running) -> None:
    cell, uuid = running
    cell.power(uuid, "reboot")
    cell.power(uuid, "hard-reboot")
    cell.bus.run()
    assert [message.hard for message in cell.bus.sent if isinstance(message, RebootGuest)] == [True]
    assert cell.instance(uuid).vm_state is VmState.ACTIVE
    cell.check()


@pytest.mark.parametrize("kind", ["stop", "reboot", "hard-reboot"])
def test_a_driver_that_refuses_leaves_a_fault_and_no_task(running: Running, kind: str) -> None:
    cell, uuid = running
    for name in ("stop", "soft_reboot", "hard_reboot"):
        setattr(cell.drivers["node1"], name, fail)
    cell.power(uuid, kind)
    cell.bus.run()
    instance = cell.instance(uuid)
    assert (instance.vm_state, instance.task_state) == (VmState.ACTIVE, None), "the guest runs all the same"
    assert instance.power_state is PowerState.RUNNING
    cell.check()


@pytest.mark.parametrize("kind", ["reboot", "hard-reboot"])
def test_a_reboot_after_which_the_guest_is_off_is_an_error(running: Running, kind: str) -> None:
    cell, uuid = running
    driver = cell.drivers["node1"]

    def stay_off(name: str, _: object) -> None:
        driver.stop(name)
        raise DriverError("It does not come up again.")

    driver.soft_reboot = driver.hard_reboot = stay_off
    cell.power(uuid, kind)
    cell.bus.run()
    instance = cell.instance(uuid)
    assert (instance.vm_state, instance.power_state) == (VmState.ERROR, PowerState.SHUTDOWN)
    assert instance.fault is not None
    assert instance.fault.message == "It does not come up again."
    assert "node1" in instance.fault.details
    cell.check()


@pytest.mark.parametrize("kind", ["stop", "reboot", "hard-reboot"])
def test_an_unreachable_host_changes_no_settled_state(running: Running, kind: str) -> None:
    cell, uuid = running
    cell.bus.cut_off = {"node1"}
    cell.power(uuid, kind)
    cell.bus.run()
    instance = cell.instance(uuid)
    assert (instance.vm_state, instance.task_state, instance.power_state) == (VmState.ACTIVE, None, PowerState.RUNNING)
    cell.check()


def test_delete_gives_everything_back(running: Running) -> None:
    cell, uuid = running
    cell.delete(uuid)
    assert cell.instance(uuid).task_state is TaskState.DELETING
    cell.bus.run()
    assert cell.find(uuid) is None
    assert cell.check() == {}


def test_a_second_delete_is_no_second_workflow(running: Running) -> None:
    cell, uuid = running
    instance = cell.instance(uuid)
    cell.delete(uuid)
    cell.conductor.operations.deletes.delete(instance.uuid, asker("req-again"))
    cell.bus.run()
    cell.conductor.operations.deletes.delete(instance.uuid, asker("req-late"))
    cell.bus.run()
    assert [type(message) for message in cell.bus.sent].count(DestroyGuest) == 1
    assert cell.check() == {}


def test_a_delete_that_the_driver_refuses_can_be_repeated(running: Running) -> None:
    cell, uuid = running
    driver = cell.drivers["node1"]
    driver.destroy = fail
    cell.delete(uuid)
    cell.bus.run()
    instance = cell.instance(uuid)
    assert (instance.vm_state, instance.task_state, instance.host) == (VmState.ERROR, None, "node1")
    assert cell.check() == {uuid: "error"}
    del driver.destroy
    cell.delete(uuid)
    cell.bus.run()
    assert cell.check() == {}


def test_a_delete_goes_through_when_the_host_is_gone_and_the_guest_follows_when_it_is_back(running: Running) -> None:
    cell, uuid = running
    cell.bus.cut_off = {"node1"}
    cell.delete(uuid)
    cell.bus.run()
    assert cell.find(uuid) is None
    assert set(cell.drivers["node1"].list_guests()) == {uuid}
    again = cell.restart()
    assert again.check() == {}
    again.database.close()


@pytest.mark.parametrize("steps", range(12))
def test_delete_during_a_build(cell_of: NewCell, steps: int) -> None:
    cell = cell_of(host("node1", failing_spawns=1), host("node2"))
    group = cell.add_group("anti-affinity")
    (uuid,) = cell.boot(group=group)
    for _ in range(steps):
        cell.bus.step()
    cell.delete(uuid)
    cell.bus.run()
    assert cell.find(uuid) is None
    assert cell.check() == {}


@pytest.mark.parametrize("kind", ["stop", "reboot", "hard-reboot"])
@pytest.mark.parametrize("steps", range(4))
def test_delete_during_a_power_action(running: Running, kind: str, steps: int) -> None:
    cell, uuid = running
    cell.power(uuid, kind)
    for _ in range(steps):
        cell.bus.step()
    cell.delete(uuid)
    cell.bus.run()
    assert cell.check() == {}


def test_acting_on_what_is_deleted(running: Running) -> None:
    cell, uuid = running
    instance = cell.instance(uuid)
    cell.delete(uuid)
    cell.bus.run()
    with pytest.raises(NotFound):
        cell.conductor.operations.power.change(instance.uuid, "stop", asker("req-stop"))
    cell.check()
