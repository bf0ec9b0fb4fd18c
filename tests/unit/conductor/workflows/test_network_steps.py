# SPDX-License-Identifier: Apache-2.0
"""Ports of servers that are rebooted, shelved, moved, evacuated or deleted: bound where the guest is, none left."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from kilonova.errors import DriverError
from kilonova.messaging.messages import LiveMigrate, PrepareLiveMigration
from kilonova.model.instance import GuestSpec, PowerState, TaskState, VmState
from kilonova.model.network_info import NetworkInfo
from support.cell import Cell, NewCell, host, networks
from support.fake_neutron import FakeNeutron, Fault
from support.folder_images import FolderImages
from support.networks import check_networks

Server = tuple[Cell, FakeNeutron, str]
NewServer = Callable[..., Server]


@pytest.fixture
def server_of(cell_of: NewCell, images: FolderImages) -> NewServer:
    """Boots a server with a new port and a port of the user on node1, with node2 beside it."""

    def boot(
        *,
        plugs_at_once: bool = True,
        first: dict[str, Any] | None = None,
        other: dict[str, Any] | None = None,
        **options: Any,
    ) -> Server:
        neutron = FakeNeutron()
        private, other_network = neutron.make_network("private", "wonder"), neutron.make_network("other", "wonder")
        port = neutron.make_port(other_network, "wonder", name="of the user")
        both = host("node1", **first or {}), host("node2", **other or {})
        cell = cell_of(*both, neutron=neutron, images=images, **options)
        (uuid,) = cell.boot(networks=networks(private, other_network, ports={other_network: port}), force_host="node1")
        cell.work_off()
        assert cell.instance(uuid).vm_state is VmState.ACTIVE
        neutron.ports.plugs_at_once = plugs_at_once
        return cell, neutron, uuid

    return boot


def hosts(neutron: FakeNeutron, uuid: str) -> set[str]:
    return {port["binding:host_id"] for port in neutron.ports_of(uuid)}


def rest(cell: Cell) -> dict[str, str]:
    cell.work_off()
    check_networks(cell)
    if cell.image_remover is not None:
        cell.image_remover.turn()
    return cell.check()


def plug(cell: Cell, neutron: FakeNeutron, uuid: str) -> None:
    for port in neutron.ports_of(uuid):
        neutron.plug(port["id"])
    cell.work_off()


# --- delete -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("before", ["", "stop", "soft", "resize", "live-migrate", "shelve", "error"])
def test_a_delete_leaves_no_port_and_gives_the_users_port_back(server_of: NewServer, before: str) -> None:
    cell, neutron, uuid = server_of()
    match before:
        case "stop":
            cell.power(uuid, "stop")
        case "soft":
            cell.delete(uuid, soft=True)
        case "resize":
            cell.resize(uuid)
        case "live-migrate":
            cell.live_migrate(uuid)
            while not any(isinstance(message, LiveMigrate) for message in cell.bus.sent):
                cell.bus.step()
        case "shelve":
            cell.shelve(uuid)
    if before != "live-migrate":
        cell.work_off()
    cell.force_delete(uuid)
    assert rest(cell) == {}
    (left,) = neutron.store["ports"].values()
    assert (left["name"], left["device_id"], left["_bindings"]) == ("of the user", "", {})


def test_a_soft_deleted_server_keeps_its_ports_until_it_is_reclaimed(server_of: NewServer) -> None:
    cell, neutron, uuid = server_of()
    cell.delete(uuid, soft=True)
    rest(cell)
    assert len(neutron.ports_of(uuid)) == 2
    cell.reclaim()
    assert rest(cell) == {}
    assert neutron.ports_of(uuid) == []


def test_a_server_that_was_never_placed_has_no_ports(cell_of: NewCell) -> None:
    neutron = FakeNeutron()
    cell = cell_of(host("node1", vcpus=1, memory_mib=256), neutron=neutron)
    (uuid,) = cell.boot(networks=networks(neutron.make_network()))
    cell.work_off()
    cell.delete(uuid)
    assert rest(cell) == {}


def test_a_delete_goes_on_when_the_network_service_is_back(server_of: NewServer) -> None:
    cell, neutron, uuid = server_of()
    neutron.faults.plan("", Fault.LOST, 5)
    cell.delete(uuid)
    cell.bus.run()
    assert cell.instance(uuid).task_state is TaskState.DELETING
    assert rest(cell) == {}


def test_ports_that_are_gone_already_are_no_error(server_of: NewServer) -> None:
    cell, neutron, uuid = server_of()
    neutron.send_events = None
    for port in neutron.ports_of(uuid):
        neutron.delete("ports", port["id"])
    cell.delete(uuid)
    cell.work_off()
    assert cell.find(uuid) is None


def test_a_delete_of_a_server_without_networks_asks_nothing(cell_of: NewCell) -> None:
    neutron = FakeNeutron()
    cell = cell_of(host("node1"), neutron=neutron)
    (uuid,) = cell.boot()
    cell.work_off()
    cell.delete(uuid)
    cell.work_off()
    assert neutron.faults.counts() == {}
    assert cell.bus.aside == 0


# --- on its host ------------------------------------------------------------------------------------------------------


def test_a_hard_reboot_looks_the_ports_up(server_of: NewServer) -> None:
    cell, neutron, uuid = server_of()
    neutron.send_events = None
    external = neutron.make_external()
    port = cell.interfaces(uuid)[0].port_id
    neutron.create("floatingips", {"floating_network_id": external, "port_id": port, "project_id": "wonder"})
    neutron.update("ports", port, {"binding:host_id": None})
    cell.power(uuid, "hard-reboot")
    assert rest(cell) == {uuid: "active"}
    assert hosts(neutron, uuid) == {"node1"}
    (address,) = [address for _, address in cell.interfaces(uuid)[0].addresses]
    assert address.floating == ("172.24.4.2",)


def test_a_hard_reboot_does_without_the_network_service(server_of: NewServer) -> None:
    cell, neutron, uuid = server_of()
    neutron.faults.plan("", Fault.LOST, 99)
    cell.power(uuid, "hard-reboot")
    cell.work_off()
    assert cell.instance(uuid).vm_state is VmState.ACTIVE


def test_a_rebuilt_guest_has_its_interfaces(server_of: NewServer) -> None:
    cell, _, uuid = server_of()
    cell.rebuild(uuid)
    assert rest(cell) == {uuid: "active"}


@pytest.mark.parametrize("at_once", [True, False])
def test_a_shelved_server_has_ports_without_a_host(server_of: NewServer, *, at_once: bool) -> None:
    cell, neutron, uuid = server_of()
    cell.shelve(uuid, offload=at_once)
    cell.work_off()
    if not at_once:
        assert hosts(neutron, uuid) == {"node1"}
        cell.offload(uuid)
    assert rest(cell) == {uuid: "shelved_offloaded"}
    assert hosts(neutron, uuid) == {""}
    assert len(cell.interfaces(uuid)) == 2
    cell.unshelve(uuid, "node2")
    assert rest(cell) == {uuid: "active"}
    assert hosts(neutron, uuid) == {"node2"}


def test_an_unshelve_waits_for_its_ports(server_of: NewServer) -> None:
    cell, neutron, uuid = server_of(plugs_at_once=False)
    cell.shelve(uuid)
    cell.work_off()
    cell.unshelve(uuid)
    cell.work_off()
    assert cell.instance(uuid).task_state is TaskState.SPAWNING
    plug(cell, neutron, uuid)
    assert rest(cell) == {uuid: "active"}


def test_a_failed_unshelve_unbinds_the_ports_again(server_of: NewServer) -> None:
    cell, neutron, uuid = server_of()
    cell.shelve(uuid)
    cell.work_off()
    for driver in cell.drivers.values():
        driver.hypervisor.failures_left["spawn"] = -1
    cell.unshelve(uuid)
    assert rest(cell) == {uuid: "shelved_offloaded"}
    assert hosts(neutron, uuid) == {""}


# --- cold moves -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("end", [Cell.confirm, Cell.revert])
def test_a_resize_binds_the_ports_where_the_guest_is(server_of: NewServer, end: Callable[[Cell, str], None]) -> None:
    cell, neutron, uuid = server_of()
    cell.resize(uuid)
    assert rest(cell) == {uuid: "resized"}
    assert hosts(neutron, uuid) == {"node2"}
    end(cell, uuid)
    assert rest(cell) == {uuid: "active"}
    assert hosts(neutron, uuid) == {cell.instance(uuid).host}


def test_a_resize_and_its_revert_wait_for_the_ports(server_of: NewServer) -> None:
    cell, neutron, uuid = server_of(plugs_at_once=False)
    cell.resize(uuid)
    cell.work_off()
    assert cell.instance(uuid).task_state is TaskState.RESIZE_FINISH
    plug(cell, neutron, uuid)
    assert cell.instance(uuid).vm_state is VmState.RESIZED
    cell.revert(uuid)
    cell.work_off()
    assert cell.instance(uuid).task_state is TaskState.RESIZE_REVERTING
    plug(cell, neutron, uuid)
    assert rest(cell) == {uuid: "active"}


def test_a_revert_resumes_the_guest_that_its_host_has_started_paused(server_of: NewServer) -> None:
    cell, neutron, uuid = server_of(plugs_at_once=False, first={"starts_paused": True})
    cell.resize(uuid)
    cell.work_off()
    plug(cell, neutron, uuid)
    cell.revert(uuid)
    cell.work_off()
    assert cell.drivers["node1"].list_guests() == {uuid: PowerState.PAUSED}
    plug(cell, neutron, uuid)
    assert rest(cell) == {uuid: "active"}
    assert cell.drivers["node1"].list_guests() == {uuid: PowerState.RUNNING}


def test_a_stopped_server_moves_without_a_wait(server_of: NewServer) -> None:
    cell, neutron, uuid = server_of(plugs_at_once=False)
    cell.power(uuid, "stop")
    cell.work_off()
    cell.migrate(uuid)
    assert rest(cell) == {uuid: "resized"}
    assert hosts(neutron, uuid) == {"node2"}


@pytest.mark.parametrize("why", ["finish", "binding", "plugged"])
def test_a_resize_that_fails_brings_the_ports_home(server_of: NewServer, why: str) -> None:
    cell, neutron, uuid = server_of(
        other={"failing_moves": -1} if why == "finish" else {}, plugs_at_once=why != "plugged"
    )
    if why == "binding":
        neutron.ports.unbindable.add("node2")
    cell.resize(uuid)
    cell.work_off()
    if why == "plugged":
        after_timeout(cell)
    cell.work_off()
    assert cell.instance(uuid).host == "node1"
    assert hosts(neutron, uuid) == {"node1"}
    check_networks(cell)
    cell.check()


def after_timeout(cell: Cell) -> None:
    """Run the workflows as they are when the wait for their ports is over."""
    clock = cell.conductor.runner.services.database.clock
    present = clock.now
    clock.now = lambda: present() + timedelta(seconds=301)  # type: ignore[method-assign]
    cell.conductor.runner.look_for_events()
    cell.bus.run()


@pytest.mark.parametrize("plugs_at_once", [True, False])
def test_an_evacuated_server_takes_its_ports_along(server_of: NewServer, *, plugs_at_once: bool) -> None:
    cell, neutron, uuid = server_of(plugs_at_once=plugs_at_once)
    cell.bus.cut_off.add("node1")
    cell.evacuate(uuid)
    cell.work_off()
    if not plugs_at_once:
        assert cell.instance(uuid).task_state is TaskState.REBUILD_SPAWNING
        plug(cell, neutron, uuid)
    assert (cell.instance(uuid).vm_state, cell.instance(uuid).host) == (VmState.ACTIVE, "node2")
    assert hosts(neutron, uuid) == {"node2"}
    cell.reconnect()
    assert rest(cell) == {uuid: "active"}


def test_an_evacuation_ends_without_a_port_that_is_never_plugged(server_of: NewServer) -> None:
    cell, _, uuid = server_of(plugs_at_once=False)
    cell.bus.cut_off.add("node1")
    cell.evacuate(uuid)
    cell.work_off()
    after_timeout(cell)
    assert cell.instance(uuid).vm_state is VmState.ACTIVE
    assert [vif.active for vif in cell.interfaces(uuid)] == [False, False]


# --- live migration ---------------------------------------------------------------------------------------------------


def bindings_of(neutron: FakeNeutron, uuid: str) -> set[tuple[str, ...]]:
    return {tuple(sorted(port["_bindings"])) for port in neutron.store.where("ports", device_id=uuid)}


def copying(server: Server) -> Server:
    """Run a live migration until the memory of the guest is being copied."""
    cell, _, uuid = server
    cell.live_migrate(uuid)
    while not any(isinstance(message, LiveMigrate) for message in cell.bus.sent):
        assert cell.bus.step()
    return server


def test_the_ports_of_a_guest_that_is_copied_are_bound_to_both_hosts(server_of: NewServer) -> None:
    cell, neutron, uuid = copying(server_of())
    assert bindings_of(neutron, uuid) == {("node1", "node2")}
    assert hosts(neutron, uuid) == {"node1"}
    assert {port["binding:profile"]["migrating_to"] for port in neutron.ports_of(uuid)} == {"node2"}
    (prepared,) = [message.guest for message in cell.bus.sent if isinstance(message, PrepareLiveMigration)]
    assert [vif.port_id for vif in prepared.vifs] == [vif.port_id for vif in cell.interfaces(uuid)]
    assert rest(cell) == {uuid: "active"}
    assert (hosts(neutron, uuid), bindings_of(neutron, uuid)) == ({"node2"}, {("node2",)})
    assert all("migrating_to" not in port["binding:profile"] for port in neutron.ports_of(uuid))


def _abort(cell: Cell, uuid: str) -> None:
    cell.abort(uuid)


def _fail(cell: Cell, _uuid: str) -> None:
    cell.drivers["node1"].hypervisor.failures_left["live migration"] = -1


@pytest.mark.parametrize("act", [_abort, _fail])
def test_a_live_migration_that_ends_at_its_source_leaves_no_binding(
    server_of: NewServer, act: Callable[[Cell, str], None]
) -> None:
    cell, neutron, uuid = copying(server_of())
    act(cell, uuid)
    assert rest(cell) == {uuid: "active"}
    assert cell.instance(uuid).host == "node1"
    assert (hosts(neutron, uuid), bindings_of(neutron, uuid)) == ({"node1"}, {("node1",)})
    assert all("migrating_to" not in port["binding:profile"] for port in neutron.ports_of(uuid))


def test_a_destination_to_which_ports_cannot_be_bound(server_of: NewServer) -> None:
    cell, neutron, uuid = server_of()
    neutron.ports.unbindable.add("node2")
    cell.live_migrate(uuid)
    assert rest(cell) == {uuid: "active"}
    assert cell.instance(uuid).host == "node1"
    assert not [message for message in cell.bus.sent if isinstance(message, PrepareLiveMigration)]


@pytest.mark.parametrize("call", ["POST ports/bindings", "PUT ports/bindings/activate", "DELETE ports/bindings", "PUT"])
@pytest.mark.parametrize("fault", [Fault.LATE, Fault.LOST, Fault.TWICE])
def test_lost_responses_during_a_live_migration(server_of: NewServer, call: str, fault: Fault) -> None:
    cell, neutron, uuid = server_of()
    neutron.faults.plan(call, fault, 2)
    cell.live_migrate(uuid)
    assert rest(cell) == {uuid: "active"}
    assert (hosts(neutron, uuid), bindings_of(neutron, uuid)) == ({"node2"}, {("node2",)})


def test_a_guest_that_fails_to_start_during_a_move_does_not_lose_its_interfaces(server_of: NewServer) -> None:
    cell, neutron, uuid = server_of()
    seen: list[NetworkInfo] = []

    def fail(guest: GuestSpec, _source: str) -> None:
        seen.append(guest.vifs)
        raise DriverError("No room.")

    cell.drivers["node2"].prepare_live_migration = fail
    cell.live_migrate(uuid)
    assert rest(cell) == {uuid: "active"}
    assert [len(vifs) for vifs in seen] == [2]
    assert bindings_of(neutron, uuid) == {("node1",)}
