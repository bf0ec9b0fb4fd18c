# SPDX-License-Identifier: Apache-2.0
"""Servers with ports that request resources of their host: builds, moves, attached and detached interfaces."""

from dataclasses import replace
from typing import Any

import pytest

from kilonova.messaging.messages import SpawnGuest
from kilonova.model.instance import VmState
from kilonova.model.network_request import RequestedNetwork
from kilonova.scenario.model import SimulatedPool
from kilonova.scheduler.settings import SchedulerConfig
from support.cell import Cell, NewCell, host, networks
from support.fake_neutron import FakeNeutron
from support.folder_images import FolderImages
from support.network_agents import EGRESS, PACKETS, add_agent, taken
from support.networks import check_networks

PUBLIC = {"provider:network_type": "flat", "provider:physical_network": "public"}


class Cloud:
    """Hosts with an agent each, and a network service. ``bridges``: host → provider of its bridge."""

    def __init__(self, cell: Cell, neutron: FakeNeutron) -> None:
        self.cell, self.neutron = cell, neutron
        self.network = neutron.make_network(**PUBLIC)
        self.bridges = {each.name: add_agent(cell.database, each.name, packets=100) for each in cell.hosts}

    def port(self, **guarantee: int) -> str:
        return self.neutron.make_port(self.network, "wonder", qos_policy_id=self.neutron.make_policy(**guarantee))

    def boot(self, port: str, **asked: Any) -> str:
        (uuid,) = self.cell.boot(networks=networks(self.network, ports={self.network: port}, demands=True), **asked)
        self.cell.work_off()
        return uuid

    def attach(self, uuid: str, port: str) -> None:
        self.cell.attach(uuid, RequestedNetwork(network_id=self.network, port_id=port, demands=True))
        self.cell.work_off()

    def egress(self, uuid: str) -> dict[str, int]:
        """Return the bandwidth that a consumer has, by host."""
        found = taken(self.cell.database, uuid, EGRESS)
        return {name: found[bridge][EGRESS] for name, bridge in self.bridges.items() if bridge in found}

    def allocation(self, port: str) -> set[str]:
        """Return the providers in the profile of a port."""
        allocation = self.neutron.port(port)["binding:profile"].get("allocation", {})
        return {allocation} if isinstance(allocation, str) else set(allocation.values())


@pytest.fixture
def cloud(cell_of: NewCell) -> Cloud:
    neutron = FakeNeutron()
    return Cloud(cell_of(host("node1"), host("node2"), neutron=neutron), neutron)


def state(cloud: Cloud, uuid: str) -> tuple[VmState, str | None]:
    server = cloud.cell.instance(uuid)
    return server.vm_state, server.host


def test_a_port_gets_its_bandwidth_on_the_host_of_its_server(cloud: Cloud) -> None:
    first = cloud.port(egress=8_000)
    uuid = cloud.boot(first, force_host="node1")
    assert cloud.egress(uuid) == {"node1": 8_000}
    assert cloud.allocation(first) == {cloud.bridges["node1"]}
    second = cloud.port(egress=8_000)
    other = cloud.boot(second)
    assert (state(cloud, other), cloud.egress(other)) == ((VmState.ACTIVE, "node2"), {"node2": 8_000})
    third = cloud.boot(cloud.port(egress=8_000))
    server = cloud.cell.instance(third)
    assert server.vm_state is VmState.ERROR
    assert server.fault is not None
    assert "Placement: port" in server.fault.message
    cloud.cell.delete(uuid)
    cloud.cell.work_off()
    assert cloud.neutron.port(first)["binding:profile"] == {}
    assert cloud.egress(uuid) == {}
    assert state(cloud, cloud.boot(cloud.port(egress=8_000)))[0] is VmState.ACTIVE
    check_networks(cloud.cell)


def test_groups_of_one_port_are_served_by_one_agent(cloud: Cloud) -> None:
    port = cloud.port(egress=1_000, packets=60)
    uuid = cloud.boot(port)
    given = cloud.neutron.port(port)["binding:profile"]["allocation"]
    groups = {each["id"] for each in cloud.neutron.port(port)["resource_request"]["request_groups"]}
    assert given.keys() == groups
    assert len(taken(cloud.cell.database, uuid, EGRESS, PACKETS)) == 2
    (vif,) = cloud.cell.interfaces(uuid)
    assert vif.resources == taken(cloud.cell.database, uuid, EGRESS, PACKETS)


def test_the_format_without_groups_gives_one_provider(cloud: Cloud) -> None:
    cloud.neutron.ports.groups = False
    port = cloud.port(egress=1_000)
    uuid = cloud.boot(port, force_host="node2")
    assert cloud.neutron.port(port)["binding:profile"] == {"allocation": cloud.bridges["node2"]}
    assert cloud.egress(uuid) == {"node2": 1_000}


def test_a_failed_build_gives_the_bandwidth_back_before_the_next_host(cell_of: NewCell) -> None:
    neutron = FakeNeutron()
    cell = cell_of(host("node1", failing_spawns=1, vcpus=8, memory_mib=8192), host("node2"), neutron=neutron)
    cloud = Cloud(cell, neutron)
    port = cloud.port(egress=1_000)
    uuid = cloud.boot(port)
    assert state(cloud, uuid) == (VmState.ACTIVE, "node2")
    assert (cloud.egress(uuid), cloud.allocation(port)) == ({"node2": 1_000}, {cloud.bridges["node2"]})


def test_a_port_made_on_a_network_with_a_guarantee_is_refused(cloud: Cloud) -> None:
    network = cloud.neutron.make_network(
        "guaranteed", v4="10.9.0.0/24", **PUBLIC, qos_policy_id=cloud.neutron.make_policy(egress=1)
    )
    (uuid,) = cloud.cell.boot(networks=networks(network))
    cloud.cell.work_off()
    server = cloud.cell.instance(uuid)
    assert server.vm_state is VmState.ERROR
    assert server.fault is not None
    assert server.fault.message == (
        f"Using networks with QoS policy is not supported for instance {uuid}. (Network ID is {network})"
    )
    assert cloud.neutron.ports_of(uuid) == []


def test_a_resize_takes_the_bandwidth_at_both_hosts_until_it_is_confirmed(cloud: Cloud) -> None:
    port = cloud.port(egress=6_000)
    uuid = cloud.boot(port, force_host="node1")
    cloud.cell.resize(uuid)
    cloud.cell.work_off()
    migration = cloud.cell.open_migration(uuid)
    assert migration is not None
    assert (cloud.egress(uuid), cloud.egress(migration.uuid)) == ({"node2": 6_000}, {"node1": 6_000})
    assert cloud.allocation(port) == {cloud.bridges["node2"]}
    cloud.cell.confirm(uuid)
    cloud.cell.work_off()
    assert (cloud.egress(uuid), cloud.egress(migration.uuid)) == ({"node2": 6_000}, {})


def test_a_revert_restores_the_port_as_it_was(cloud: Cloud) -> None:
    port = cloud.port(egress=6_000, packets=10)
    uuid = cloud.boot(port, force_host="node1")
    before = cloud.neutron.port(port)["binding:profile"]
    cloud.cell.migrate(uuid)
    cloud.cell.work_off()
    assert cloud.neutron.port(port)["binding:profile"] != before
    cloud.cell.revert(uuid)
    cloud.cell.work_off()
    assert state(cloud, uuid) == (VmState.ACTIVE, "node1")
    assert cloud.neutron.port(port)["binding:profile"] == before
    assert cloud.egress(uuid) == {"node1": 6_000}
    check_networks(cloud.cell)


def test_a_move_asks_again_what_the_port_requests(cloud: Cloud) -> None:
    port = cloud.port(egress=1_000)
    uuid = cloud.boot(port, force_host="node1")
    cloud.neutron.store["ports"][port]["qos_policy_id"] = cloud.neutron.make_policy(egress=11_000)
    cloud.cell.migrate(uuid)
    cloud.cell.work_off()
    assert state(cloud, uuid) == (VmState.ACTIVE, "node1")
    assert (cloud.egress(uuid), cloud.allocation(port)) == ({"node1": 1_000}, {cloud.bridges["node1"]})
    cloud.neutron.store["ports"][port]["qos_policy_id"] = cloud.neutron.make_policy(egress=2_000)
    cloud.cell.migrate(uuid)
    cloud.cell.work_off()
    assert cloud.egress(uuid) == {"node2": 2_000}


def test_a_live_migration_binds_the_port_with_the_destinations_provider(cloud: Cloud) -> None:
    port = cloud.port(egress=6_000)
    uuid = cloud.boot(port, force_host="node1")
    cloud.cell.live_migrate(uuid)
    cloud.cell.work_off()
    assert state(cloud, uuid) == (VmState.ACTIVE, "node2")
    assert (cloud.egress(uuid), cloud.allocation(port)) == ({"node2": 6_000}, {cloud.bridges["node2"]})
    check_networks(cloud.cell)


def test_an_attached_port_gets_bandwidth_and_gives_it_back(cloud: Cloud) -> None:
    uuid = cloud.boot(cloud.port(egress=6_000), force_host="node1")
    second = cloud.port(egress=3_000)
    cloud.attach(uuid, second)
    assert (cloud.egress(uuid), cloud.allocation(second)) == ({"node1": 9_000}, {cloud.bridges["node1"]})
    third = cloud.port(egress=3_000)
    cloud.attach(uuid, third)
    assert cloud.egress(uuid) == {"node1": 9_000}
    assert cloud.neutron.port(third)["device_id"] == ""
    cloud.cell.detach(uuid, second)
    cloud.cell.work_off()
    assert cloud.egress(uuid) == {"node1": 6_000}
    cloud.attach(uuid, third)
    assert cloud.egress(uuid) == {"node1": 9_000}
    check_networks(cloud.cell)


def test_a_port_that_cannot_be_plugged_gives_its_bandwidth_back(cloud: Cloud) -> None:
    uuid = cloud.boot(cloud.port(egress=6_000), force_host="node1")
    cloud.neutron.ports.unbindable.add("node1")
    port = cloud.port(egress=1_000)
    cloud.attach(uuid, port)
    assert cloud.egress(uuid) == {"node1": 6_000}
    assert cloud.neutron.port(port)["binding:profile"] == {}
    assert len(cloud.cell.interfaces(uuid)) == 1


def test_a_deleted_port_gives_its_bandwidth_back(cloud: Cloud) -> None:
    uuid = cloud.boot(cloud.port(egress=6_000), force_host="node1")
    port = cloud.port(egress=1_000)
    cloud.attach(uuid, port)
    assert cloud.egress(uuid) == {"node1": 7_000}
    cloud.neutron.delete("ports", port)
    cloud.cell.work_off()
    assert cloud.egress(uuid) == {"node1": 6_000}


def test_servers_without_such_ports_cost_no_request(cloud: Cloud) -> None:
    network = cloud.neutron.make_network("plain", v4="10.7.0.0/24")
    cloud.neutron.faults.calls.clear()
    (uuid,) = cloud.cell.boot(networks=networks(network))
    assert cloud.neutron.faults.calls == []
    cloud.cell.work_off()
    assert cloud.cell.instance(uuid).vm_state is VmState.ACTIVE
    assert "GET extensions" not in cloud.neutron.faults.counts()


def test_an_evacuated_server_gets_its_bandwidth_at_the_new_host(cloud: Cloud) -> None:
    port = cloud.port(egress=6_000)
    uuid = cloud.boot(port, force_host="node1")
    cloud.cell.evacuate(uuid)
    cloud.cell.work_off()
    assert state(cloud, uuid) == (VmState.ACTIVE, "node2")
    assert (cloud.egress(uuid), cloud.allocation(port)) == ({"node2": 6_000}, {cloud.bridges["node2"]})


def test_an_unshelved_server_gets_bandwidth_anew(cell_of: NewCell, images: FolderImages) -> None:
    neutron = FakeNeutron()
    cloud = Cloud(cell_of(host("node1"), host("node2"), neutron=neutron, images=images), neutron)
    port = cloud.port(egress=6_000)
    uuid = cloud.boot(port, force_host="node1")
    cloud.cell.shelve(uuid)
    cloud.cell.work_off()
    assert (cloud.egress(uuid), cloud.neutron.port(port)["binding:profile"]) == ({}, {})
    other = cloud.boot(cloud.port(egress=6_000), force_host="node1")
    cloud.cell.unshelve(uuid)
    cloud.cell.work_off()
    assert (state(cloud, uuid)[1], cloud.cell.instance(other).host) == ("node2", "node1")
    assert (cloud.egress(uuid), cloud.allocation(port)) == ({"node2": 6_000}, {cloud.bridges["node2"]})
    check_networks(cloud.cell)


def with_cards(cell_of: NewCell, count: int = 2) -> Cloud:
    neutron = FakeNeutron()
    config = replace(SchedulerConfig(), enabled_filters=(*SchedulerConfig().enabled_filters, "PciPassthroughFilter"))
    cards = SimulatedPool("8086", "154c", count, dev_type="type-VF", tags={"physical_network": "public"})
    hosts = [host(name, pci=(cards,)) for name in ("node1", "node2")]
    return Cloud(cell_of(*hosts, neutron=neutron, config=config), neutron)


def slot(cloud: Cloud, port: str) -> str | None:
    profile = cloud.neutron.port(port)["binding:profile"]
    return profile.get("pci_slot")


def test_a_direct_port_gets_a_virtual_function_of_the_host(cell_of: NewCell) -> None:
    cloud = with_cards(cell_of)
    ports = [cloud.neutron.make_port(cloud.network, "wonder", **{"binding:vnic_type": "direct"}) for _ in range(4)]
    servers = [cloud.boot(port, force_host="node1") for port in ports[:3]]
    assert cloud.neutron.port(ports[0])["binding:profile"] == {
        "pci_slot": "0000:00:00.0",
        "pci_vendor_info": "8086:154c",
        "physical_network": "public",
    }
    assert slot(cloud, ports[1]) == "0000:00:00.1"
    assert cloud.cell.instance(servers[2]).vm_state is VmState.ERROR
    spawned = [message.guest for message in cloud.cell.bus.sent if isinstance(message, SpawnGuest)]
    assert [guest.reserved.devices for guest in spawned] == [(), ()]
    assert [vif.profile["pci_slot"] for guest in spawned for vif in guest.vifs] == ["0000:00:00.0", "0000:00:00.1"]
    cloud.cell.delete(servers[0])
    cloud.cell.work_off()
    assert cloud.neutron.port(ports[0])["binding:profile"] == {}
    cloud.boot(ports[3], force_host="node1")
    assert slot(cloud, ports[3]) == "0000:00:00.0"


def test_a_reverted_migration_restores_the_virtual_function(cell_of: NewCell) -> None:
    cloud = with_cards(cell_of)
    first, second = (
        cloud.neutron.make_port(cloud.network, "wonder", **{"binding:vnic_type": "direct"}) for _ in range(2)
    )
    cloud.boot(first, force_host="node1")
    uuid = cloud.boot(second, force_host="node1")
    before = cloud.neutron.port(second)["binding:profile"]
    cloud.cell.migrate(uuid)
    cloud.cell.work_off()
    assert (state(cloud, uuid)[1], slot(cloud, second)) == ("node2", "0000:00:00.0")
    cloud.cell.revert(uuid)
    cloud.cell.work_off()
    assert (state(cloud, uuid)[1], cloud.neutron.port(second)["binding:profile"]) == ("node1", before)
