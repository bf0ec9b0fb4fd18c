# SPDX-License-Identifier: Apache-2.0
"""An order that is on its way to an agent while its workflow is interrupted, and comes when something else was done."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import pytest

from kilonova.compute.virt.fake.guests import GuestFile, SimulatedGuest
from kilonova.messaging.messages import AgentMessage, Order, RescueGuest
from kilonova.model.instance import PowerState, VmState
from support.cell import Cell, NewCell, host
from support.manual_bus import ManualBus
from support.world import power_states_on_disk

Act = Callable[[Cell, str], None]


class SlowRoute(ManualBus):
    """Holds back the first order after ``holds``, as a connection does that is stuck, until it is delivered."""

    def __init__(self) -> None:
        super().__init__()
        self.holds = False
        self.late: list[tuple[str, AgentMessage]] = []

    def cast(self, host: str, message: AgentMessage) -> None:
        if self.holds and isinstance(message, Order):
            self.holds = False
            self.late.append((host, message))
        else:
            super().cast(host, message)

    def deliver(self) -> None:
        for where, message in self.late:
            super().cast(where, message)


def power(kind: str) -> Act:
    return lambda cell, uuid: cell.power(uuid, kind)


def soft_delete(cell: Cell, uuid: str) -> None:
    cell.delete(uuid, soft=True)


def guest(cell: Cell, uuid: str) -> SimulatedGuest:
    found = GuestFile("node1", cell.folder / "hypervisors" / "node1.json").places[uuid].guest
    assert found is not None
    return found


@dataclass(frozen=True)
class Interrupted:
    """``act`` is under way when it is interrupted; ``before``: what was done before it."""

    act: Act
    before: Sequence[Act] = field(default=())

    def begin(self, cell_of: NewCell, bus: SlowRoute) -> tuple[Cell, str]:
        cell = cell_of(host("node1"), bus=bus)
        (uuid,) = cell.boot()
        bus.run()
        for act in self.before:
            act(cell, uuid)
            bus.run()
        bus.holds = True
        self.act(cell, uuid)
        bus.run()
        assert bus.late, "the order is on its way"
        return cell, uuid


CASES = {
    "start": Interrupted(power("start"), [power("stop")]),
    "stop": Interrupted(power("stop")),
    "pause": Interrupted(power("pause")),
    "unpause": Interrupted(power("unpause"), [power("pause")]),
    "suspend": Interrupted(power("suspend")),
    "resume": Interrupted(power("resume"), [power("suspend")]),
    "reboot": Interrupted(power("reboot")),
    "hard reboot": Interrupted(power("hard-reboot")),
    "rescue": Interrupted(Cell.rescue),
    "unrescue": Interrupted(Cell.unrescue, [Cell.rescue]),
    "restore": Interrupted(Cell.restore, [soft_delete]),
}


@pytest.fixture
def bus() -> SlowRoute:
    return SlowRoute()


@pytest.mark.parametrize("case", CASES)
def test_after_a_soft_delete_it_does_nothing(cell_of: NewCell, bus: SlowRoute, case: str) -> None:
    cell, uuid = CASES[case].begin(cell_of, bus)
    soft_delete(cell, uuid)
    bus.run()
    assert cell.instance(uuid).vm_state is VmState.SOFT_DELETED
    bus.deliver()
    bus.run()
    assert power_states_on_disk(cell.folder / "hypervisors") == {uuid: PowerState.SHUTDOWN}
    cell.check()


@pytest.mark.parametrize("case", [case for case in CASES if case != "restore"])
def test_after_a_delete_it_makes_no_guest(cell_of: NewCell, bus: SlowRoute, case: str) -> None:
    cell, uuid = CASES[case].begin(cell_of, bus)
    cell.delete(uuid)
    bus.run()
    assert cell.find(uuid) is None
    bus.deliver()
    bus.run()
    assert power_states_on_disk(cell.folder / "hypervisors") == {}
    cell.check()


@pytest.mark.parametrize("case", ["pause", "suspend", "reboot", "hard reboot"])
def test_after_a_hard_reboot_it_does_nothing(cell_of: NewCell, bus: SlowRoute, case: str) -> None:
    cell, uuid = CASES[case].begin(cell_of, bus)
    cell.power(uuid, "hard-reboot")
    bus.run()
    assert cell.instance(uuid).vm_state is VmState.ACTIVE
    starts = len(guest(cell, uuid).console)
    bus.deliver()
    bus.run()
    assert len(guest(cell, uuid).console) == starts
    cell.check()


def test_an_order_that_waits_for_its_turn_is_not_carried_out_any_more(cell_of: NewCell) -> None:
    """Its agent has got it, and has not begun."""
    cell = cell_of(host("node1"))
    (uuid,) = cell.boot()
    cell.bus.run()
    cell.rescue(uuid)
    while not any(isinstance(message, RescueGuest) for message in cell.bus.sent):
        assert cell.bus.step()
    cell.delete(uuid, soft=True)
    cell.bus.run()
    assert [entry.what for entry in guest(cell, uuid).console] == ["first start"]
    cell.check()


@pytest.mark.parametrize("case", [case for case in CASES if case != "restore"])
def test_an_agent_that_cannot_be_told_holds_nobody_up(cell_of: NewCell, bus: SlowRoute, case: str) -> None:
    """The server is deleted, and its guest goes when the host is back."""
    cell, uuid = CASES[case].begin(cell_of, bus)
    bus.cut_off.add("node1")
    cell.delete(uuid)
    bus.run()
    assert cell.find(uuid) is None
    assert not cell.conductor.runner.known
    cell.reconnect()
    bus.run()
    assert power_states_on_disk(cell.folder / "hypervisors") == {}
    cell.check()
