# SPDX-License-Identifier: Apache-2.0
"""How the actions about one guest where it is end when its host fails, or has never heard of them."""

from collections.abc import Callable
from typing import Any

import pytest

from kilonova.compute.virt.fake.guests import GuestFile, SimulatedGuest
from kilonova.db import instance_actions
from kilonova.errors import DriverError
from kilonova.model.image import Image
from kilonova.model.instance import PowerState, VmState
from support.cell import PASSWORD, Cell, Running, asker


def fail(*_args: object) -> None:
    raise DriverError("The guest does not obey.")


def guest(cell: Cell, uuid: str) -> SimulatedGuest:
    found = GuestFile("node1", cell.folder / "hypervisors" / "node1.json").places[uuid].guest
    assert found is not None
    return found


def power(kind: str) -> Callable[[Cell, str], None]:
    return lambda cell, uuid: cell.power(uuid, kind)


#: What the driver calls it → what comes before, the action, and the state after a failure.
FAILURES: dict[str, tuple[tuple[Any, ...], Any, VmState]] = {
    "pause": ((), power("pause"), VmState.ACTIVE),
    "unpause": ((power("pause"),), power("unpause"), VmState.PAUSED),
    "suspend": ((), power("suspend"), VmState.ERROR),
    "resume": ((power("suspend"),), power("resume"), VmState.ERROR),
    "rescue": ((), Cell.rescue, VmState.ERROR),
    "unrescue": ((Cell.rescue,), Cell.unrescue, VmState.ERROR),
    "set_admin_password": ((), Cell.change_password, VmState.ACTIVE),
    "crash_dump": ((), Cell.crash_dump, VmState.ACTIVE),
}


@pytest.mark.parametrize("name", FAILURES)
def test_a_driver_that_refuses(running: Running, name: str) -> None:
    (cell, uuid), (before, act, vm_state) = running, FAILURES[name]
    for earlier in before:
        earlier(cell, uuid)
        cell.bus.run()
    power_state = cell.instance(uuid).power_state
    setattr(cell.drivers["node1"], name, fail)
    act(cell, uuid)
    cell.bus.run()
    server = cell.instance(uuid)
    assert (server.vm_state, server.task_state, server.power_state) == (vm_state, None, power_state)
    with cell.database.read() as connection:
        (newest, *_) = instance_actions.list_page(connection, instance_actions.ActionQuery(uuid))
        (event,) = instance_actions.events(connection, uuid, newest.request_id)
    assert (newest.message, event.result, event.details) == ("Error", "Error", "The guest does not obey.")
    cell.check()


@pytest.mark.parametrize("name", FAILURES)
def test_a_host_that_has_never_heard_of_it(running: Running, name: str) -> None:
    (cell, uuid), (before, act, _) = running, FAILURES[name]
    for earlier in before:
        earlier(cell, uuid)
        cell.bus.run()
    settled = cell.instance(uuid)
    cell.bus.cut_off.add("node1")
    act(cell, uuid)
    cell.bus.run()
    server = cell.instance(uuid)
    assert (server.vm_state, server.task_state, server.power_state) == (settled.vm_state, None, settled.power_state)


def test_a_host_is_told_what_an_image_says_of_itself_as_one_to_rescue_from(running: Running) -> None:
    cell, uuid = running
    driver, told = cell.drivers["node1"], []
    rescue = driver.rescue

    def note_and_rescue(*given: Any) -> None:
        told.append(given[1].image_properties)
        rescue(*given)

    driver.rescue = note_and_rescue
    asked = {"hw_rescue_bus": "usb", "hw_rescue_device": "", "hw_video_model": "vga"}
    image = Image("helper", "helper", properties=asked)
    cell.conductor.operations.rescues.rescue(uuid, image, PASSWORD, asker("req-rescue"))
    cell.bus.run()
    assert told == [{"hw_rescue_bus": "usb"}]


def test_a_hard_reboot_after_a_rescue_that_failed_takes_the_servers_own_disk(running: Running) -> None:
    cell, uuid = running
    driver = cell.drivers["node1"]
    rescue = driver.rescue

    def rescue_and_break(*given: Any) -> None:
        rescue(*given)
        raise RuntimeError("after it was done")

    driver.rescue = rescue_and_break
    cell.rescue(uuid)
    cell.bus.run()
    assert cell.instance(uuid).vm_state is VmState.ERROR
    assert guest(cell, uuid).rescue_image_ref is not None
    cell.power(uuid, "hard-reboot")
    cell.work_off()
    server = cell.instance(uuid)
    assert (server.vm_state, server.power_state) == (VmState.ACTIVE, PowerState.RUNNING)
    assert guest(cell, uuid).rescue_image_ref is None
    cell.check()


def test_a_delete_takes_over_from_a_rescue(running: Running) -> None:
    cell, uuid = running
    cell.rescue(uuid)
    cell.delete(uuid)
    cell.work_off()
    assert cell.find(uuid) is None
    assert cell.check() == {}
