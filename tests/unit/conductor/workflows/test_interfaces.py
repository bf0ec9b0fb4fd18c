# SPDX-License-Identifier: Apache-2.0
"""Interfaces attached to servers and detached: ports, guests, failures and other actions at the same time."""

import pytest
import sqlalchemy as sa

from kilonova.compute.virt.fake.guests import GuestFile
from kilonova.db import instance_actions, workflows
from kilonova.db.core import tables as t
from kilonova.errors import DriverError
from kilonova.messaging.messages import AttachInterface, DetachInterface
from kilonova.model.instance import VmState
from kilonova.model.network_info import Vif
from kilonova.model.network_request import RequestedNetwork
from support.cell import Cell, NewCell, host, networks
from support.fake_neutron import FakeNeutron, Fault
from support.networks import check_networks

Attached = tuple[Cell, FakeNeutron, str, str]


@pytest.fixture
def server(cell_of: NewCell) -> Attached:
    """A server with a port on a network: cell, network service, server, network."""
    neutron = FakeNeutron()
    private = neutron.make_network()
    cell = cell_of(host("node1"), host("node2"), neutron=neutron)
    (uuid,) = cell.boot(networks=networks(private), force_host="node1")
    cell.work_off()
    return cell, neutron, uuid, private


def plugged(cell: Cell, uuid: str) -> tuple[str, ...]:
    guest = GuestFile("node1", cell.folder / "hypervisors" / "node1.json").guest(uuid)
    return () if guest is None else guest.ports


def fault_of(cell: Cell) -> tuple[int, str]:
    """Return code and message of the only fault, which is shown for servers in error only."""
    columns = t.instance_faults.c
    with cell.database.read() as connection:
        code, message = connection.execute(sa.select(columns.code, columns.message)).one()
    return code, message


def action(cell: Cell, uuid: str, request_id: str) -> list[tuple[str, str | None]]:
    with cell.database.read() as connection:
        return [(event.event, event.result) for event in instance_actions.events(connection, uuid, request_id)]


@pytest.mark.parametrize(("before", "then"), [("stop", None), ("pause", "unpause"), (None, None)])
def test_a_server_gets_another_port_and_loses_it_again(server: Attached, before: str | None, then: str | None) -> None:
    cell, neutron, uuid, private = server
    if before is not None:
        cell.power(uuid, before)
        cell.work_off()
    cell.attach(uuid, RequestedNetwork(network_id=private, address="10.1.0.77"))
    cell.work_off()
    _, new = cell.interfaces(uuid)
    assert [address.address for _, address in new.addresses] == ["10.1.0.77"]
    assert new.created
    assert plugged(cell, uuid) == tuple(vif.port_id for vif in cell.interfaces(uuid))
    assert action(cell, uuid, "req-attach") == [("compute_attach_interface", "Success")]
    check_networks(cell)
    if then is not None:
        cell.power(uuid, then)
        cell.work_off()
    state = cell.instance(uuid).vm_state
    cell.detach(uuid, new.port_id)
    cell.work_off()
    assert len(neutron.ports_of(uuid)) == 1
    assert action(cell, uuid, "req-detach") == [("compute_detach_interface", "Success")]
    assert cell.instance(uuid).vm_state is state
    check_networks(cell)


def test_a_port_of_the_user_is_given_back(server: Attached) -> None:
    cell, neutron, uuid, private = server
    port = neutron.make_port(private, "wonder")
    cell.attach(uuid, RequestedNetwork(network_id=private, port_id=port, tag="nic"))
    cell.work_off()
    assert [(vif.created, vif.tag) for vif in cell.interfaces(uuid)] == [(True, None), (False, "nic")]
    assert neutron.port(port)["binding:host_id"] == "node1"
    cell.detach(uuid, port)
    cell.work_off()
    assert neutron.port(port)["device_id"] == ""
    check_networks(cell)


def test_a_server_that_was_made_without_networks_gets_one(cell_of: NewCell) -> None:
    neutron = FakeNeutron()
    cell = cell_of(host("node1"), neutron=neutron)
    (uuid,) = cell.boot()
    cell.work_off()
    cell.attach(uuid, RequestedNetwork(network_id=neutron.make_network()))
    cell.work_off()
    assert len(cell.interfaces(uuid)) == 1
    check_networks(cell)


@pytest.mark.parametrize("of_user", [True, False])
def test_a_failure_of_the_host_leaves_no_port(server: Attached, *, of_user: bool) -> None:
    cell, neutron, uuid, private = server

    def fail(_uuid: str, _vif: Vif) -> None:
        raise DriverError("The guest has no free slot.")

    cell.drivers["node1"].attach_interface = fail
    port = neutron.make_port(private, "wonder") if of_user else None
    cell.attach(uuid, RequestedNetwork(network_id=private, port_id=port))
    cell.work_off()
    instance = cell.instance(uuid)
    assert (instance.vm_state, instance.task_state) == (VmState.ACTIVE, None)
    assert fault_of(cell) == (500, "The guest has no free slot.")
    assert len(cell.interfaces(uuid)) == 1
    check_networks(cell)


@pytest.mark.parametrize("fault", [Fault.LATE, Fault.LOST, Fault.ERROR, Fault.CONFLICT])
def test_an_attach_that_the_network_service_refuses_leaves_no_port(server: Attached, fault: Fault) -> None:
    cell, neutron, uuid, private = server
    neutron.faults.plan("POST ports", fault)
    cell.attach(uuid, RequestedNetwork(network_id=private))
    cell.work_off()
    assert len(neutron.ports_of(uuid)) == 1
    assert not [message for message in cell.bus.sent if isinstance(message, AttachInterface)]
    check_networks(cell)


def test_a_port_that_the_server_has_already_is_not_attached_again(server: Attached) -> None:
    cell, neutron, uuid, private = server
    port = neutron.make_port(private, "wonder")
    for _ in range(2):
        cell.attach(uuid, RequestedNetwork(network_id=private, port_id=port))
        cell.work_off()
    assert [vif.port_id for vif in cell.interfaces(uuid)][1:] == [port]
    assert fault_of(cell) == (409, f"Port {port} is still in use.")
    check_networks(cell)


def test_a_host_to_which_the_port_cannot_be_bound(server: Attached) -> None:
    cell, neutron, uuid, private = server
    neutron.ports.unbindable.add("node1")
    cell.attach(uuid, RequestedNetwork(network_id=private))
    cell.work_off()
    assert len(cell.interfaces(uuid)) == 1
    assert len(neutron.ports_of(uuid)) == 1


def test_a_guest_that_keeps_its_interface_keeps_the_port(server: Attached) -> None:
    cell, _, uuid, _ = server

    def fail(_uuid: str, _vif: Vif) -> None:
        raise DriverError("The guest does not release the device.")

    cell.drivers["node1"].detach_interface = fail
    cell.detach(uuid, cell.interfaces(uuid)[0].port_id)
    cell.work_off()
    assert len(cell.interfaces(uuid)) == 1
    assert cell.instance(uuid).vm_state is VmState.ACTIVE
    check_networks(cell)


def test_a_port_that_is_gone_is_detached(server: Attached) -> None:
    cell, neutron, uuid, _ = server
    (vif,) = cell.interfaces(uuid)
    neutron.send_events = None
    neutron.delete("ports", vif.port_id)
    cell.detach(uuid, vif.port_id)
    cell.work_off()
    assert cell.interfaces(uuid) == ()
    check_networks(cell)


def test_the_network_service_is_away_while_a_port_is_removed(server: Attached) -> None:
    cell, neutron, uuid, _ = server
    neutron.faults.plan("DELETE ports", Fault.LOST, 3)
    cell.detach(uuid, cell.interfaces(uuid)[0].port_id)
    cell.work_off()
    assert neutron.ports_of(uuid) == []
    check_networks(cell)


def test_a_detach_whose_row_is_read_again_before_the_reply_removes_the_port(server: Attached) -> None:
    cell, neutron, uuid, _ = server
    cell.detach(uuid, cell.interfaces(uuid)[0].port_id)
    while not any(isinstance(message, DetachInterface) for message in cell.bus.sent):
        assert cell.bus.step()
    with cell.database.read() as connection:
        rows = workflows.of_instance(connection, uuid)
    cell.conductor.runner.interrupted(rows)
    cell.work_off()
    assert neutron.ports_of(uuid) == []
    check_networks(cell)


def test_other_actions_wait_and_a_delete_does_not(server: Attached) -> None:
    cell, _, uuid, private = server
    cell.attach(uuid, RequestedNetwork(network_id=private))
    cell.detach(uuid, cell.interfaces(uuid)[0].port_id)
    cell.power(uuid, "stop")
    cell.work_off()
    assert cell.instance(uuid).vm_state is VmState.STOPPED
    assert len(cell.interfaces(uuid)) == 1
    check_networks(cell)
    cell.attach(uuid, RequestedNetwork(network_id=private))
    cell.delete(uuid)
    cell.work_off()
    assert cell.find(uuid) is None
    assert [type(message) for message in cell.bus.sent].count(DetachInterface) == 1
