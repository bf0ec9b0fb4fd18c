# SPDX-License-Identifier: Apache-2.0
"""Builds of servers with networks: ports, their undo, and the wait until they are plugged."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest

from kilonova.compute.virt.fake import FakeDriver
from kilonova.db import aggregates, instance_actions, network_events
from kilonova.db.core.transaction import Transaction
from kilonova.errors import DriverError
from kilonova.messaging.messages import SpawnGuest, UnpauseGuest
from kilonova.model.instance import GuestSpec, TaskState, VmState
from kilonova.model.network_info import NetworkInfo
from support.cell import Cell, NewCell, host, networks
from support.fake_neutron import FakeNeutron, Fault


def _spawns(cell: Cell) -> list[GuestSpec]:
    return [message.guest for message in cell.bus.sent if isinstance(message, SpawnGuest)]


def _events(cell: Cell, uuid: str) -> list[tuple[str, str | None]]:
    with cell.database.read() as connection:
        found = instance_actions.events(connection, uuid, f"req-{uuid}")
    return [(event.event, event.result) for event in found]


def _addresses(info: NetworkInfo) -> list[str]:
    return [address.address for vif in info for _, address in vif.addresses]


def test_a_server_gets_ports_of_its_project_on_its_host(cell_of: NewCell) -> None:
    neutron = FakeNeutron()
    private, other = neutron.make_network("private"), neutron.make_network("other", v4="10.2.0.0/24")
    cell = cell_of(host("node1"), neutron=neutron)
    (uuid,) = cell.boot(networks=networks(private, other))
    assert cell.instance(uuid).task_state is TaskState.SCHEDULING
    cell.work_off()
    assert cell.instance(uuid).vm_state is VmState.ACTIVE
    ports = neutron.ports_of(uuid)
    assert {(port["binding:host_id"], port["project_id"], port["device_owner"]) for port in ports} == {
        ("node1", "wonder", "compute:nova")
    }
    info = cell.interfaces(uuid)
    assert [(vif.network.id, vif.created, vif.active) for vif in info] == [(private, True, True), (other, True, True)]
    assert _addresses(info) == [fixed["ip_address"] for port in ports for fixed in port["fixed_ips"]]
    (guest,) = _spawns(cell)
    assert (guest.vifs, guest.starts_paused) == (info, False)
    assert _events(cell, uuid) == [("compute__do_build_and_run_instance", "Success")]
    calls = neutron.faults.counts()
    assert sum(calls.values()) <= 2 * 2 + 4, calls


def test_the_owner_of_a_port_names_the_zone_of_the_host(cell_of: NewCell) -> None:
    neutron = FakeNeutron()
    private = neutron.make_network()
    cell = cell_of(host("node1"), neutron=neutron)

    def furnish(tx: Transaction) -> None:
        for name, zone in (("kept", None), ("east", "east")):
            aggregates.add_host(tx, aggregates.create(tx, name, zone).id, "node1", default_zone="nova")

    cell.database.write(furnish)
    (uuid,) = cell.boot(networks=networks(private))
    cell.work_off()
    assert [port["device_owner"] for port in neutron.ports_of(uuid)] == ["compute:east"]
    assert (cell.mirror.zone_of("node1"), cell.mirror.zone_of("node2")) == ("east", None)


def test_a_server_without_networks_asks_the_network_service_nothing(cell_of: NewCell) -> None:
    neutron = FakeNeutron()
    cell = cell_of(host("node1"), neutron=neutron)
    (uuid,) = cell.boot()
    cell.work_off()
    assert cell.instance(uuid).vm_state is VmState.ACTIVE
    assert neutron.faults.counts() == {}
    assert cell.bus.aside == 0


def test_each_of_several_servers_has_its_own_ports(cell_of: NewCell) -> None:
    neutron = FakeNeutron()
    private = neutron.make_network()
    cell = cell_of(host("node1"), host("node2"), neutron=neutron, piece=2)
    uuids = cell.boot(5, networks=networks(private))
    cell.work_off()
    assert [len(neutron.ports_of(uuid)) for uuid in uuids] == [1] * 5
    assert len({address for uuid in uuids for address in _addresses(cell.interfaces(uuid))}) == 5


def test_a_port_of_the_user_is_taken_and_released_never_deleted(cell_of: NewCell) -> None:
    neutron = FakeNeutron()
    private = neutron.make_network()
    port = neutron.make_port(private, "wonder")
    cell = cell_of(host("node1", failing_spawns=-1), neutron=neutron)
    (uuid,) = cell.boot(networks=networks(private, ports={private: port}))
    cell.work_off()
    assert cell.instance(uuid).vm_state is VmState.ERROR
    assert cell.interfaces(uuid) == ()
    left = neutron.port(port)
    assert (left["device_id"], left["device_owner"], left["binding:host_id"]) == ("", "", "")


def test_ports_that_a_failed_build_has_made_are_deleted(cell_of: NewCell) -> None:
    neutron = FakeNeutron()
    private = neutron.make_network()
    cell = cell_of(host("node1", failing_spawns=1), host("node2", failing_spawns=1), neutron=neutron, max_attempts=2)
    (uuid,) = cell.boot(networks=networks(private))
    cell.work_off()
    server = cell.instance(uuid)
    assert server.vm_state is VmState.ERROR
    assert neutron.ports_of(uuid) == []
    assert len(_spawns(cell)) == 2


def test_a_host_to_which_ports_cannot_be_bound_is_left_for_the_next(cell_of: NewCell) -> None:
    neutron = FakeNeutron()
    private = neutron.make_network()
    neutron.ports.unbindable.add("node1")
    cell = cell_of(host("node1", vcpus=8, memory_mib=8192), host("node2"), neutron=neutron)
    (uuid,) = cell.boot(networks=networks(private))
    cell.work_off()
    assert (cell.instance(uuid).vm_state, cell.instance(uuid).host) == (VmState.ACTIVE, "node2")
    assert [port["binding:host_id"] for port in neutron.ports_of(uuid)] == ["node2"]
    assert cell.failed_builds() == {"node1": 1, "node2": 0}


def test_no_other_host_is_tried_for_a_port_that_the_network_service_refuses(cell_of: NewCell) -> None:
    neutron = FakeNeutron()
    private = neutron.make_network()
    cell = cell_of(host("node1"), host("node2"), neutron=neutron)
    neutron.set_quota("wonder", port=1)
    neutron.make_port(private, "wonder")
    (uuid,) = cell.boot(networks=networks(private))
    cell.work_off()
    server = cell.instance(uuid)
    assert server.vm_state is VmState.ERROR
    assert server.fault is not None
    assert server.fault.message == "Maximum number of ports exceeded"
    assert "Failed to allocate the network(s), not rescheduling." in server.fault.details
    assert cell.failed_builds() == {"node1": 0, "node2": 0}
    assert neutron.faults.counts()["POST ports"] == 1


@pytest.mark.parametrize("fault", [Fault.LATE, Fault.LOST, Fault.ERROR, Fault.TWICE])
def test_a_response_that_is_lost_leaves_one_port(cell_of: NewCell, fault: Fault) -> None:
    neutron = FakeNeutron()
    private = neutron.make_network()
    cell = cell_of(host("node1"), neutron=neutron)
    neutron.faults.plan("POST ports", fault)
    (uuid,) = cell.boot(networks=networks(private))
    cell.work_off()
    assert cell.instance(uuid).vm_state is VmState.ACTIVE
    ports = {port["id"] for port in neutron.ports_of(uuid)}
    assert ports >= {vif.port_id for vif in cell.interfaces(uuid)}
    assert len(ports) == (2 if fault is Fault.TWICE else 1)


def test_a_delete_during_a_build_leaves_no_port(cell_of: NewCell) -> None:
    neutron = FakeNeutron()
    private = neutron.make_network()
    cell = cell_of(host("node1"), neutron=neutron)
    (uuid,) = cell.boot(networks=networks(private))
    while not neutron.ports_of(uuid):
        cell.bus.step()
    cell.delete(uuid)
    cell.work_off()
    assert cell.find(uuid) is None
    assert neutron.ports_of(uuid) == []


# --- plugged events ---------------------------------------------------------------------------------------------------


def _waiting(cell_of: NewCell, count: int = 1, **options: object) -> tuple[Cell, FakeNeutron, str]:
    """Return a server that waits until its ports are plugged. ``count``: of the ports."""
    neutron = FakeNeutron(plugs_at_once=False)
    private = [neutron.make_network(str(number)) for number in range(count)]
    cell = cell_of(host("node1"), neutron=neutron, **options)
    (uuid,) = cell.boot(networks=networks(*private))
    cell.work_off()
    assert cell.instance(uuid).task_state is TaskState.SPAWNING
    return cell, neutron, uuid


def test_a_server_is_active_when_its_ports_are_plugged(cell_of: NewCell) -> None:
    cell, neutron, uuid = _waiting(cell_of)
    (guest,) = _spawns(cell)
    assert guest.starts_paused
    assert not guest.vifs[0].active
    neutron.plug(neutron.ports_of(uuid)[0]["id"])
    cell.bus.run()
    assert cell.instance(uuid).vm_state is VmState.ACTIVE
    assert [vif.active for vif in cell.interfaces(uuid)] == [True]
    with cell.database.read() as connection:
        assert network_events.of_server(connection, uuid) == ()
    assert not [message for message in cell.bus.sent if isinstance(message, UnpauseGuest)]


def test_an_event_that_comes_before_the_guest_exists_is_not_lost(cell_of: NewCell) -> None:
    neutron = FakeNeutron(plugs_at_once=False)
    private = neutron.make_network()
    cell = cell_of(host("node1"), neutron=neutron)
    (uuid,) = cell.boot(networks=networks(private))
    while not cell.interfaces(uuid):
        cell.bus.step()
    neutron.plug(neutron.ports_of(uuid)[0]["id"])
    cell.bus.run()
    assert cell.instance(uuid).vm_state is VmState.ACTIVE


def test_a_new_process_goes_on_waiting(cell_of: NewCell) -> None:
    cell, neutron, uuid = _waiting(cell_of)
    cell = cell.restart()
    cell.work_off()
    assert cell.instance(uuid).task_state is TaskState.SPAWNING
    neutron.plug(neutron.ports_of(uuid)[0]["id"])
    cell.work_off()
    assert cell.instance(uuid).vm_state is VmState.ACTIVE
    cell.database.close()


def test_the_events_of_a_stopped_process_are_found_by_the_next(cell_of: NewCell) -> None:
    cell, neutron, uuid = _waiting(cell_of)
    neutron.plug(neutron.ports_of(uuid)[0]["id"])
    cell = cell.restart()
    cell.work_off()
    assert cell.instance(uuid).vm_state is VmState.ACTIVE
    cell.database.close()


def test_an_event_that_was_lost_with_a_process_is_made_up_for_by_the_next(cell_of: NewCell) -> None:
    cell, neutron, uuid = _waiting(cell_of, count=2)
    heard, lost = (port["id"] for port in neutron.ports_of(uuid))
    neutron.plug(heard)
    neutron.send_events = None
    neutron.plug(lost)
    cell = cell.restart()
    cell.work_off()
    assert cell.instance(uuid).vm_state is VmState.ACTIVE
    assert [vif.active for vif in cell.interfaces(uuid)] == [True, True]
    cell.database.close()


def test_a_port_whose_event_was_lost_stays_known_while_the_next_process_waits_for_another(cell_of: NewCell) -> None:
    cell, neutron, uuid = _waiting(cell_of, count=2)
    lost, later = (port["id"] for port in neutron.ports_of(uuid))
    neutron.send_events = None
    neutron.plug(lost)
    cell = cell.restart()
    cell.work_off()
    assert cell.instance(uuid).task_state is TaskState.SPAWNING
    neutron.plug(later)
    cell.work_off()
    assert cell.instance(uuid).vm_state is VmState.ACTIVE
    assert [vif.active for vif in cell.interfaces(uuid)] == [True, True]
    cell.database.close()


def test_an_event_that_was_lost_before_the_wait_is_made_up_for(cell_of: NewCell) -> None:
    neutron = FakeNeutron(plugs_at_once=False)
    private = neutron.make_network()
    cell = cell_of(host("node1"), neutron=neutron)
    (uuid,) = cell.boot(networks=networks(private))
    while not cell.interfaces(uuid):
        cell.bus.step()
    neutron.send_events = None
    neutron.plug(neutron.ports_of(uuid)[0]["id"])
    cell = cell.restart()
    cell.work_off()
    assert cell.instance(uuid).vm_state is VmState.ACTIVE
    cell.database.close()


def test_ports_are_looked_up_once_by_a_new_process(cell_of: NewCell) -> None:
    cell, neutron, uuid = _waiting(cell_of, count=2)
    one, other = (port["id"] for port in neutron.ports_of(uuid))
    asked = len(neutron.faults.calls)
    neutron.plug(one)
    cell.work_off()
    assert len(neutron.faults.calls) == asked, "the wait itself asks the network service nothing"
    cell = cell.restart()
    cell.work_off()
    asked = len(neutron.faults.calls)
    neutron.plug(one)
    cell.work_off()
    assert cell.instance(uuid).task_state is TaskState.SPAWNING
    neutron.plug(other)
    cell.work_off()
    assert cell.instance(uuid).vm_state is VmState.ACTIVE
    assert len(neutron.faults.calls) == asked
    cell.database.close()


def test_a_new_process_waits_while_the_network_service_is_away(cell_of: NewCell) -> None:
    cell, neutron, uuid = _waiting(cell_of)
    neutron.send_events = None
    neutron.plug(neutron.ports_of(uuid)[0]["id"])
    neutron.faults.plan("", Fault.LOST, times=20)
    cell = cell.restart()
    cell.work_off(rounds=12)
    assert cell.instance(uuid).task_state is TaskState.SPAWNING
    cell.work_off()
    assert cell.instance(uuid).vm_state is VmState.ACTIVE
    cell.database.close()


def _after_timeout(cell: Cell) -> None:
    """Run the workflows as they are when the wait for their ports is over."""
    services = cell.conductor.runner.services
    clock = services.database.clock
    present = clock.now
    clock.now = lambda: present() + timedelta(seconds=301)  # type: ignore[method-assign]
    cell.conductor.runner.look_for_events()
    cell.bus.run()


def test_a_port_that_is_not_plugged_in_time_fails_the_build(cell_of: NewCell) -> None:
    cell, neutron, uuid = _waiting(cell_of)
    _after_timeout(cell)
    server = cell.instance(uuid)
    assert server.vm_state is VmState.ERROR
    assert server.fault is not None
    assert server.fault.message == "Failed to allocate the network(s), not rescheduling."
    assert neutron.ports_of(uuid) == []
    assert cell.check() == {uuid: "error"}


def test_a_lost_event_is_made_up_for_by_a_look_at_the_port(cell_of: NewCell) -> None:
    cell, neutron, uuid = _waiting(cell_of)
    neutron.send_events = None
    neutron.plug(neutron.ports_of(uuid)[0]["id"])
    _after_timeout(cell)
    assert cell.instance(uuid).vm_state is VmState.ACTIVE
    assert [vif.active for vif in cell.interfaces(uuid)] == [True]


def _options(**changed: object) -> Callable[..., object]:
    return lambda settings: replace(settings, conductor=replace(settings.conductor, **changed))


def test_the_operator_may_let_guests_run_without_plugged_ports(cell_of: NewCell) -> None:
    cell, _, uuid = _waiting(cell_of, adapt=_options(vif_plugging_is_fatal=False))
    _after_timeout(cell)
    assert cell.instance(uuid).vm_state is VmState.ACTIVE
    assert [vif.active for vif in cell.interfaces(uuid)] == [False]


def test_a_timeout_of_zero_means_no_wait(cell_of: NewCell) -> None:
    neutron = FakeNeutron(plugs_at_once=False)
    private = neutron.make_network()
    cell = cell_of(host("node1"), neutron=neutron, adapt=_options(vif_plugging_timeout_s=0))
    (uuid,) = cell.boot(networks=networks(private))
    cell.work_off()
    assert cell.instance(uuid).vm_state is VmState.ACTIVE


def test_a_failed_event_fails_the_build_at_once(cell_of: NewCell) -> None:
    cell, neutron, uuid = _waiting(cell_of)
    port = neutron.ports_of(uuid)[0]["id"]
    cell.hear({"name": "network-vif-plugged", "server_uuid": uuid, "tag": port, "status": "failed"})
    cell.bus.run()
    assert cell.instance(uuid).vm_state is VmState.ERROR
    assert neutron.ports_of(uuid) == []


def test_a_guest_that_its_driver_has_started_paused_is_resumed(cell_of: NewCell) -> None:
    neutron = FakeNeutron(plugs_at_once=False)
    private = neutron.make_network()
    cell = cell_of(host("node1"), neutron=neutron)
    driver: FakeDriver = cell.drivers["node1"]
    spawn = driver.spawn

    def spawn_paused(guest: GuestSpec) -> None:
        spawn(guest)
        driver.pause(guest.uuid)

    driver.spawn = spawn_paused  # type: ignore[method-assign]
    (uuid,) = cell.boot(networks=networks(private))
    cell.work_off()
    neutron.plug(neutron.ports_of(uuid)[0]["id"])
    cell.work_off()
    assert cell.check() == {uuid: "active"}
    assert [type(message).__name__ for message in cell.bus.sent] == ["SpawnGuest", "UnpauseGuest"]


def test_a_delete_does_not_wait_for_events(cell_of: NewCell) -> None:
    cell, neutron, uuid = _waiting(cell_of)
    cell.delete(uuid)
    cell.work_off()
    assert cell.find(uuid) is None
    assert neutron.ports_of(uuid) == []


def test_an_error_while_ports_are_removed_is_repeated(cell_of: NewCell) -> None:
    neutron = FakeNeutron()
    private = neutron.make_network()
    cell = cell_of(host("node1"), neutron=neutron, max_attempts=1)
    driver: FakeDriver = cell.drivers["node1"]

    def fail(_guest: GuestSpec) -> None:
        neutron.faults.plan("DELETE ports", Fault.ERROR)
        raise DriverError("The disk cannot be written.")

    driver.spawn = fail  # type: ignore[method-assign]
    (uuid,) = cell.boot(networks=networks(private))
    cell.work_off()
    assert cell.instance(uuid).vm_state is VmState.ERROR
    assert neutron.ports_of(uuid) == []
