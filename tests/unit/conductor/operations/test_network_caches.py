# SPDX-License-Identifier: Apache-2.0
"""Cached interfaces follow the network service: after its events, and periodically."""

from datetime import timedelta

import pytest

from kilonova.compute.virt.fake.guests import GuestFile
from kilonova.model.instance import VmState
from support.cell import Cell, NewCell, host, networks
from support.fake_neutron import FakeNeutron, Fault
from support.networks import check_networks

NOW = timedelta(seconds=-60)


@pytest.fixture
def servers(cell_of: NewCell) -> tuple[Cell, FakeNeutron, list[str]]:
    """Three servers with a port each, and one without."""
    neutron = FakeNeutron()
    private = neutron.make_network()
    cell = cell_of(host("node1"), neutron=neutron)
    uuids = cell.boot(3, networks=networks(private))
    cell.boot()
    cell.work_off()
    neutron.faults.calls.clear()
    return cell, neutron, uuids


def floating_of(cell: Cell, uuid: str) -> list[str]:
    return [each for vif in cell.interfaces(uuid) for _, address in vif.addresses for each in address.floating]


def test_a_floating_address_is_seen_as_soon_as_the_network_service_tells(
    servers: tuple[Cell, FakeNeutron, list[str]],
) -> None:
    cell, neutron, (uuid, *_) = servers
    before = cell.instance(uuid).updated_at
    port = cell.interfaces(uuid)[0].port_id
    neutron.create("floatingips", {"floating_network_id": neutron.make_external(), "port_id": port})
    cell.bus.run()
    assert floating_of(cell, uuid) == ["172.24.4.2"]
    after = cell.instance(uuid).updated_at
    assert after is not None
    assert before is None or after > before


def test_many_events_about_a_server_cost_one_look_up(servers: tuple[Cell, FakeNeutron, list[str]]) -> None:
    cell, neutron, uuids = servers
    for _ in range(5):
        for uuid in uuids:
            cell.hear({"name": "network-changed", "server_uuid": uuid})
    cell.bus.run()
    assert neutron.faults.counts() == {
        "GET ports": 1, "GET networks": 1, "GET subnets": 1, "GET security-groups": 1, "GET floatingips": 1
    }  # fmt: skip


def test_without_events_the_caches_are_renewed_when_they_are_old(
    servers: tuple[Cell, FakeNeutron, list[str]],
) -> None:
    cell, neutron, (uuid, *_) = servers
    neutron.send_events = None
    port = cell.interfaces(uuid)[0].port_id
    neutron.create("floatingips", {"floating_network_id": neutron.make_external(), "port_id": port})
    caches = cell.conductor.operations.network_caches
    assert caches.renew_old(timedelta(hours=1)) == 0
    assert caches.renew_old(NOW) == 3
    assert floating_of(cell, uuid) == ["172.24.4.2"]


def test_the_periodic_task_ends_while_the_network_service_is_away(
    servers: tuple[Cell, FakeNeutron, list[str]],
) -> None:
    cell, neutron, (uuid, *_) = servers
    neutron.faults.plan("", Fault.LOST, 9)
    info = cell.interfaces(uuid)
    assert cell.conductor.operations.network_caches.renew_old(NOW) == 0
    assert cell.interfaces(uuid) == info


def test_a_failure_after_an_event_does_not_end_the_renewals(servers: tuple[Cell, FakeNeutron, list[str]]) -> None:
    cell, neutron, (uuid, *_) = servers
    neutron.faults.plan("", Fault.LOST)
    for _ in range(2):
        cell.hear({"name": "network-changed", "server_uuid": uuid})
        cell.bus.run()
    assert neutron.faults.count("GET floatingips") == 1


def test_a_cloud_without_a_network_service_renews_nothing(cell_of: NewCell) -> None:
    cell = cell_of(host("node1"))
    (uuid,) = cell.boot()
    cell.work_off()
    cell.hear({"name": "network-changed", "server_uuid": uuid})
    cell.bus.run()
    assert cell.conductor.operations.network_caches.renew_old(NOW) == 0


@pytest.mark.parametrize("told", [True, False])
def test_an_interface_whose_port_was_deleted_leaves_the_guest(
    servers: tuple[Cell, FakeNeutron, list[str]], *, told: bool
) -> None:
    cell, neutron, (uuid, *_) = servers
    if not told:
        neutron.send_events = None
    neutron.delete("ports", cell.interfaces(uuid)[0].port_id)
    if not told:
        cell.conductor.operations.network_caches.renew_old(NOW)
    cell.work_off()
    assert cell.interfaces(uuid) == ()
    guest = GuestFile("node1", cell.folder / "hypervisors" / "node1.json").guest(uuid)
    assert guest is not None
    assert guest.ports == ()
    check_networks(cell)


def test_a_busy_server_loses_the_interface_later(servers: tuple[Cell, FakeNeutron, list[str]]) -> None:
    cell, neutron, (uuid, *_) = servers
    cell.power(uuid, "suspend")
    cell.work_off()
    neutron.delete("ports", cell.interfaces(uuid)[0].port_id)
    cell.work_off()
    assert len(cell.interfaces(uuid)) == 1
    cell.power(uuid, "resume")
    cell.work_off()
    cell.conductor.operations.network_caches.renew_old(NOW)
    cell.work_off()
    assert cell.interfaces(uuid) == ()
    assert cell.instance(uuid).vm_state is VmState.ACTIVE


def test_an_own_detach_or_delete_is_not_taken_for_a_lost_port(servers: tuple[Cell, FakeNeutron, list[str]]) -> None:
    cell, _, (first, second, _) = servers
    cell.detach(first, cell.interfaces(first)[0].port_id)
    cell.delete(second)
    cell.work_off()
    assert cell.find(second) is None
    assert cell.interfaces(first) == ()
    check_networks(cell)


@pytest.mark.parametrize("plugged", [True, False])
def test_events_say_whether_a_port_is_plugged(servers: tuple[Cell, FakeNeutron, list[str]], *, plugged: bool) -> None:
    cell, neutron, (uuid, *_) = servers
    neutron.plug(cell.interfaces(uuid)[0].port_id, plugged=plugged)
    assert [vif.active for vif in cell.interfaces(uuid)] == [plugged]
