# SPDX-License-Identifier: Apache-2.0
"""Attach of an interface as a request whose reply waits for the host."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from kilonova.conductor.operations.interfaces import Interfaces
from kilonova.conductor.operations.outcomes import Awaited, Outcomes
from kilonova.db import workflows
from kilonova.errors import (
    Conflict,
    DriverError,
    Forbidden,
    KilonovaError,
    NotFound,
    Unavailable,
    UnexpectedTaskState,
)
from kilonova.model.network_info import Vif
from kilonova.model.network_request import RequestedNetwork
from support.cell import Cell, NewCell, asker, host, networks
from support.fake_neutron import FakeNeutron, Fault


@pytest.fixture
def server(cell_of: NewCell) -> tuple[Cell, FakeNeutron, str, str]:
    neutron = FakeNeutron()
    private = neutron.make_network()
    cell = cell_of(host("node1"), neutron=neutron)
    (uuid,) = cell.boot(networks=networks(private))
    cell.work_off()
    return cell, neutron, uuid, private


@contextmanager
def at_work(cell: Cell) -> Iterator[None]:
    """Run the work of the bus in the background."""
    done = threading.Event()

    def work() -> None:
        while not done.wait(0.005):
            cell.bus.run()

    worker = threading.Thread(target=work)
    worker.start()
    try:
        yield
    finally:
        done.set()
        worker.join()


def test_the_reply_is_the_interface(server: tuple[Cell, FakeNeutron, str, str]) -> None:
    cell, _, uuid, private = server
    with at_work(cell):
        vif = cell.conductor.operations.interfaces.attach(
            uuid, RequestedNetwork(network_id=private, address="10.1.0.50"), asker("req-attach")
        )
    assert cell.interfaces(uuid)[1] == vif
    assert [address.address for _, address in vif.addresses] == ["10.1.0.50"]


def _fail(_uuid: str, _vif: Vif) -> None:
    raise DriverError("No free slot.")


def _break_host(cell: Cell, _neutron: FakeNeutron) -> None:
    cell.drivers["node1"].attach_interface = _fail


WRONG: dict[str, tuple[Callable[[Cell, FakeNeutron], object], type[KilonovaError], str]] = {
    "host": (_break_host, DriverError, "No free slot."),
    "unbindable": (lambda _cell, neutron: neutron.ports.unbindable.add("node1"), DriverError, "Binding failed"),
    "conflict": (lambda _cell, neutron: neutron.faults.plan("POST ports", Fault.CONFLICT), Conflict, "conflict"),
    "quota": (lambda _cell, neutron: neutron.set_quota("wonder", port=1), Forbidden, "Maximum number of ports"),
    "away": (lambda _cell, neutron: neutron.faults.plan("", Fault.LOST), Unavailable, "cannot be reached"),
}


@pytest.mark.parametrize("what", WRONG)
def test_the_reply_says_what_went_wrong(server: tuple[Cell, FakeNeutron, str, str], what: str) -> None:
    cell, neutron, uuid, private = server
    break_it, kind, said = WRONG[what]
    break_it(cell, neutron)
    with at_work(cell), pytest.raises(kind, match=said):
        cell.conductor.operations.interfaces.attach(uuid, RequestedNetwork(network_id=private), asker("req-attach"))
    assert len(neutron.ports_of(uuid)) == 1


def test_a_network_that_does_not_exist(server: tuple[Cell, FakeNeutron, str, str]) -> None:
    cell, _, uuid, _ = server
    with at_work(cell), pytest.raises(NotFound):
        cell.conductor.operations.interfaces.attach(uuid, RequestedNetwork(network_id="none"), asker("req-attach"))


def test_a_server_in_another_state_is_refused(server: tuple[Cell, FakeNeutron, str, str]) -> None:
    cell, _, uuid, private = server
    cell.power(uuid, "suspend")
    cell.work_off()
    interfaces = cell.conductor.operations.interfaces
    with pytest.raises(UnexpectedTaskState):
        interfaces.attach(uuid, RequestedNetwork(network_id=private), asker("req-attach"))
    with pytest.raises(UnexpectedTaskState):
        interfaces.detach(uuid, cell.interfaces(uuid)[0].port_id, asker("req-detach"))


def _impatient(cell: Cell, *, within_s: float, waiting: int = 1) -> Interfaces:
    outcomes = Outcomes(cell.database, within_s, waiting)
    return Interfaces(cell.conductor.operations.interfaces._starter, outcomes)


def test_a_slow_host_does_not_hold_the_request_for_ever(server: tuple[Cell, FakeNeutron, str, str]) -> None:
    cell, _, uuid, private = server
    interfaces = _impatient(cell, within_s=0.02)
    with pytest.raises(Unavailable, match="goes on in the background"):
        interfaces.attach(uuid, RequestedNetwork(network_id=private), asker("req-attach"))
    cell.work_off()
    assert len(cell.interfaces(uuid)) == 2


def test_few_threads_wait_for_slow_hosts(server: tuple[Cell, FakeNeutron, str, str]) -> None:
    cell, _, uuid, private = server
    interfaces = _impatient(cell, within_s=2.0)
    said: list[Any] = []

    def attach(request_id: str) -> None:
        try:
            interfaces.attach(uuid, RequestedNetwork(network_id=private), asker(request_id))
        except Unavailable as error:
            said.append(error.message)

    threads = [threading.Thread(target=attach, args=(f"req-{number}",)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted("too many" in message for message in said) == [False, True]


def test_a_workflow_that_another_process_has_ended_is_looked_up(server: tuple[Cell, FakeNeutron, str, str]) -> None:
    """The process that has the agent of the host carries the workflow out, so its events do not come here."""
    cell, _, uuid, private = server
    interfaces = _impatient(cell, within_s=10.0)
    with at_work(cell):
        vif = interfaces.attach(uuid, RequestedNetwork(network_id=private), asker("req-attach"))
    assert vif == cell.interfaces(uuid)[1]
    cell.drivers["node1"].attach_interface = _fail
    with at_work(cell), pytest.raises(DriverError, match="Failed to attach network adapter device"):
        interfaces.attach(uuid, RequestedNetwork(network_id=private), asker("req-again"))


def test_what_nobody_waits_for_is_forgotten(server: tuple[Cell, FakeNeutron, str, str]) -> None:
    cell, _, uuid, _ = server
    outcomes = Outcomes(cell.database, 1.0, 1)
    awaited = Awaited("attach-interface", uuid, "req-1")
    with outcomes.expecting(awaited) as outcome:
        assert outcomes.wait(awaited, outcome) is None
    assert not outcomes._awaited
    with cell.database.read() as connection:
        assert workflows.of_instance(connection, uuid) == ()
