# SPDX-License-Identifier: Apache-2.0
"""What becomes of a reboot whose agent, or whose control process with it, died at any of its tasks.

Every task of a reboot, with the guest in every state, is tried; what has to come of it is said by the few rules at the
top. Source: spec LIFECYCLE §3, whose rows are tested by name, too.
"""

from collections.abc import Callable
from dataclasses import replace
from itertools import product

import pytest

from kilonova.compute.agent import Agent
from kilonova.messaging.messages import RebootGuest, StepId, TaskReached
from kilonova.model.instance import PowerState as P
from kilonova.model.instance import TaskState as T
from kilonova.model.instance import VmState
from support.cell import Cell, NewCell, host

_SOFT = (T.REBOOTING, T.REBOOT_PENDING, T.REBOOT_STARTED)
_HARD = (T.REBOOTING_HARD, T.REBOOT_PENDING_HARD, T.REBOOT_STARTED_HARD)
_GUESTS = (P.RUNNING, P.SHUTDOWN, P.NOSTATE, P.PAUSED, P.CRASHED)


def what_is_done(task: T, guest: P) -> str:
    """What the agent that comes up does with the guest."""
    if guest is not P.RUNNING:
        return "hard"
    if task in {T.REBOOT_STARTED, T.REBOOT_STARTED_HARD}:
        return "nothing"
    return "soft" if task in _SOFT else "hard"


def what_is_shown(task: T, guest: P) -> list[T | None]:
    """The tasks that the server shows from then on."""
    done = what_is_done(task, guest)
    if done == "nothing":
        return [task, None]
    if task in _SOFT and done == "hard":
        return [task, T.REBOOT_PENDING_HARD, T.REBOOT_STARTED_HARD, None]
    if guest is P.NOSTATE:  # the description of the guest is needed
        return [*list(dict.fromkeys([task, T.REBOOT_PENDING_HARD])), T.REBOOT_STARTED_HARD, None]
    return [*list(dict.fromkeys([task, (_SOFT if task in _SOFT else _HARD)[-1]])), None]


class Story:
    """One server whose reboot was interrupted by a death."""

    def __init__(self, cell: Cell, uuid: str) -> None:
        self.cell = cell
        self.uuid = uuid

    def die_at(self, task: T, guest: P) -> None:
        """Have the reboot come as far as ``task`` and leave the guest in a state; then the agent is gone."""
        self.cell.power(self.uuid, "reboot" if task in _SOFT else "hard-reboot")
        self.cell.bus.step()  # sends the order
        (order,) = [each for each in self.cell.bus.sent if isinstance(each, RebootGuest)][-1:]
        self.cell.bus.close()  # nobody carries it out
        family = _SOFT if task in _SOFT else _HARD
        for each in family[1 : family.index(task) + 1]:
            self.reach(order.step, each)
        assert self.task is task
        guests = self.cell.drivers["node1"].hypervisor.guests
        guests.put(self.uuid, guest=None if guest is P.NOSTATE else replace(guests.guest(self.uuid), state=guest))

    def reach(self, step: StepId, task: T) -> None:
        self.cell.conductor.handle(TaskReached(step, "node1", self.uuid, task))
        self.cell.conductor.runner.task_progress.write()

    @property
    def task(self) -> T | None:
        return self.cell.instance(self.uuid).task_state

    def go_on(self) -> list[T | None]:
        """Let everything happen, and return which tasks the server shows."""
        shown = [self.task]
        for _ in range(100):
            is_over = not self.cell.bus.step()
            self.cell.conductor.runner.task_progress.write()
            if self.task is not shown[-1]:
                shown.append(self.task)
            if is_over:
                return shown
        raise AssertionError("it never ends")


def agent_comes_back(cell: Cell) -> Cell:
    """A new agent, which knows nothing of the steps of the one before."""
    cell.bus.serve_agent("node1", Agent("node1", cell.drivers["node1"], cell.bus).accept)
    cell.conductor.runner.ask_hosts(["node1"])
    return cell


def everything_comes_back(cell: Cell) -> Cell:
    return cell.restart()


def recorded(cell: Cell, done: list[str]) -> None:
    """Have the driver tell what it does."""
    driver = cell.drivers["node1"]
    soft, hard = type(driver).soft_reboot, type(driver).hard_reboot
    driver.soft_reboot = lambda *said: (done.append("soft"), soft(driver, *said))
    driver.hard_reboot = lambda *said: (done.append("hard"), hard(driver, *said))


@pytest.mark.parametrize("come_back", [agent_comes_back, everything_comes_back])
@pytest.mark.parametrize("task", [*_SOFT, *_HARD])
def test_a_reboot_goes_on_after_a_death(cell_of: NewCell, come_back: Callable[[Cell], Cell], task: T) -> None:
    cell = cell_of(host("node1", vcpus=8))
    uuids = cell.boot(len(_GUESTS))
    cell.bus.run()
    for uuid, guest in zip(uuids, _GUESTS, strict=True):
        Story(cell, uuid).die_at(task, guest)
        before, cell = cell, come_back(cell)
        done: list[str] = []
        recorded(cell, done)
        shown = Story(cell, uuid).go_on()
        case = f"{task.value}, guest {guest.name}"
        assert (done or ["nothing"]) == [what_is_done(task, guest)], case
        assert shown == what_is_shown(task, guest), case
        server = cell.instance(uuid)
        assert (server.vm_state, server.task_state, server.power_state) == (VmState.ACTIVE, None, P.RUNNING), case
        if cell is not before:
            before.database.close()
    cell.check()
    cell.database.close()


#: task, guest → what the spec's table says: which reboot is made, and whether it was converted.
_TABLE = {
    (T.REBOOT_STARTED, P.SHUTDOWN): "hard",
    (T.REBOOT_PENDING, P.RUNNING): "soft",
    (T.REBOOT_PENDING, P.SHUTDOWN): "hard",
    (T.REBOOTING, P.NOSTATE): "hard",
    (T.REBOOTING_HARD, P.SHUTDOWN): "hard",
    (T.REBOOT_STARTED_HARD, P.RUNNING): "nothing",
}


def test_the_rules_are_those_of_the_spec() -> None:
    assert {case: what_is_done(*case) for case in _TABLE} == _TABLE
    for task, guest in product(_SOFT, _GUESTS):
        converted = T.REBOOT_PENDING_HARD in what_is_shown(task, guest)
        assert converted == (guest is not P.RUNNING)
