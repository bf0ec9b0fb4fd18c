# SPDX-License-Identifier: Apache-2.0
"""Attached and detached ports that need a PCI device: the device is claimed on the server's host, and given back."""

from dataclasses import replace
from typing import Any

import pytest

from kilonova.db import host_devices, port_devices
from kilonova.errors import DriverError
from kilonova.messaging.messages import AttachInterface
from kilonova.model.instance import VmState
from kilonova.model.network_info import Vif
from kilonova.model.network_request import RequestedNetwork
from kilonova.scenario.model import SimulatedCell, SimulatedPool
from kilonova.scheduler.settings import SchedulerConfig
from support.cell import SMALL, Cell, NewCell, host, networks
from support.fake_neutron import FakeNeutron, Fault
from support.networks import check_networks

PUBLIC = {"provider:network_type": "flat", "provider:physical_network": "public"}
CARDS = SimulatedPool("8086", "154c", 2, dev_type="type-VF", tags={"physical_network": "public"})


class Cloud:
    """Two hosts with two virtual functions each."""

    def __init__(self, cell_of: NewCell, cards: SimulatedPool = CARDS, **facts: Any) -> None:
        self.neutron = FakeNeutron()
        filters = (*SchedulerConfig().enabled_filters, "PciPassthroughFilter")
        hosts = [host(name, pci=(cards,), **facts) for name in ("node1", "node2")]
        config = replace(SchedulerConfig(), enabled_filters=filters)
        self.cell: Cell = cell_of(*hosts, neutron=self.neutron, config=config)
        self.network = self.neutron.make_network(**PUBLIC)

    def port(self, vnic_type: str = "direct", **more: Any) -> str:
        return self.neutron.make_port(self.network, "wonder", **{"binding:vnic_type": vnic_type, **more})

    def boot(self, **asked: Any) -> str:
        (uuid,) = self.cell.boot(force_host="node1", **asked)
        self.cell.work_off()
        return uuid

    def attach(self, uuid: str, port: str) -> None:
        self.cell.attach(uuid, RequestedNetwork(network_id=self.network, port_id=port, demands=True))
        self.cell.work_off()

    def profile(self, port: str) -> dict[str, Any]:
        found: dict[str, Any] = self.neutron.port(port)["binding:profile"]
        return found

    def ports_of(self, uuid: str) -> tuple[str, ...]:
        return tuple(vif.port_id for vif in self.cell.interfaces(uuid))

    def used(self) -> int:
        """Return the number of devices in use on all hosts."""
        with self.cell.database.read() as connection:
            return sum(pool.used for found in host_devices.list_all(connection).values() for pool in found.pools)


@pytest.fixture
def cloud(cell_of: NewCell) -> Cloud:
    return Cloud(cell_of)


def test_an_attached_port_gets_a_virtual_function_and_gives_it_back(cloud: Cloud) -> None:
    uuid, ports = cloud.boot(), [cloud.port() for _ in range(3)]
    for port in ports[:2]:
        cloud.attach(uuid, port)
    assert cloud.ports_of(uuid) == tuple(ports[:2])
    assert cloud.profile(ports[0]) == {
        "pci_slot": "0000:00:00.0",
        "pci_vendor_info": "8086:154c",
        "physical_network": "public",
    }
    assert cloud.profile(ports[1])["pci_slot"] == "0000:00:00.1"
    sent = [message.vif.profile["pci_slot"] for message in cloud.cell.bus.sent if isinstance(message, AttachInterface)]
    assert sent == ["0000:00:00.0", "0000:00:00.1"]
    check_networks(cloud.cell)
    cloud.attach(uuid, ports[2])
    assert cloud.ports_of(uuid) == tuple(ports[:2]), "there is no third device"
    assert cloud.neutron.port(ports[2])["device_id"] == ""
    cloud.cell.detach(uuid, ports[0])
    cloud.cell.work_off()
    assert (cloud.ports_of(uuid), cloud.profile(ports[0]), cloud.used()) == ((ports[1],), {}, 1)
    cloud.attach(uuid, ports[2])
    assert (cloud.profile(ports[1])["pci_slot"], cloud.profile(ports[2])["pci_slot"]) == (
        "0000:00:00.1",
        "0000:00:00.0",
    )
    check_networks(cloud.cell)
    cloud.cell.delete(uuid)
    cloud.cell.work_off()
    assert cloud.used() == 0


def test_a_remote_managed_port_names_its_card(cell_of: NewCell) -> None:
    tags = {"physical_network": "public", "remote_managed": "true"}
    cards = replace(CARDS, tags=tags, card_serial_number="MT1", pf_mac_address="0c:42:a1:de:cf:7c")
    cloud = Cloud(cell_of, cards)
    uuid, first, second = cloud.boot(), cloud.port("remote-managed"), cloud.port("remote-managed")
    for port in (first, second, cloud.port("direct")):
        cloud.attach(uuid, port)
    assert cloud.ports_of(uuid) == (first, second)
    assert cloud.profile(second) == {
        "pci_slot": "0000:00:00.1",
        "pci_vendor_info": "8086:154c",
        "physical_network": "public",
        "card_serial_number": "MT1",
        "pf_mac_address": "0c:42:a1:de:cf:7c",
        "vf_num": 1,
    }
    cloud.cell.detach(uuid, second)
    cloud.cell.work_off()
    assert cloud.profile(second) == {}


def test_a_port_of_another_physical_network_gets_none(cloud: Cloud) -> None:
    uuid = cloud.boot()
    other = cloud.neutron.make_network("other", v4="10.7.0.0/24")
    port = cloud.neutron.make_port(other, "wonder", **{"binding:vnic_type": "direct"})
    cloud.cell.attach(uuid, RequestedNetwork(network_id=other, port_id=port, demands=True))
    cloud.cell.work_off()
    assert (cloud.ports_of(uuid), cloud.used()) == ((), 0)
    for vnic_type in ("direct-physical", "vdpa", "remote-managed"):
        cloud.attach(uuid, cloud.port(vnic_type))
    assert (cloud.ports_of(uuid), cloud.used()) == ((), 0)


def test_a_failure_of_the_host_gives_the_device_back(cloud: Cloud) -> None:
    uuid, port = cloud.boot(), cloud.port()

    def fail(_uuid: str, _vif: Vif) -> None:
        raise DriverError("The guest has no free slot.")

    cloud.cell.drivers["node1"].attach_interface = fail
    cloud.attach(uuid, port)
    assert (cloud.ports_of(uuid), cloud.used(), cloud.profile(port)) == ((), 0, {})
    check_networks(cloud.cell)


@pytest.mark.parametrize("fault", [Fault.LOST, Fault.ERROR, Fault.CONFLICT])
def test_a_refusal_of_the_network_service_gives_the_device_back(cloud: Cloud, fault: Fault) -> None:
    uuid, port = cloud.boot(), cloud.port()
    cloud.neutron.faults.plan("PUT ports", fault)
    cloud.attach(uuid, port)
    assert (cloud.ports_of(uuid), cloud.used()) == ((), 0)
    check_networks(cloud.cell)


def test_a_delete_during_an_attach_frees_the_device(cloud: Cloud) -> None:
    uuid, port = cloud.boot(), cloud.port()
    cloud.cell.attach(uuid, RequestedNetwork(network_id=cloud.network, port_id=port, demands=True))
    cloud.cell.delete(uuid)
    cloud.cell.work_off()
    assert (cloud.used(), cloud.profile(port)) == (0, {})
    check_networks(cloud.cell)


def test_a_device_of_the_flavor_and_those_of_ports_are_not_confused(cell_of: NewCell) -> None:
    """Both come from one pool, where the first addresses of the server are those of its ports."""
    cloud = Cloud(cell_of, replace(CARDS, count=3))
    first, second = cloud.port(), cloud.port()
    (uuid,) = cloud.cell.boot(
        networks=networks(cloud.network, ports={cloud.network: first}, demands=True), force_host="node1"
    )
    cloud.cell.work_off()
    cloud.attach(uuid, second)
    cloud.cell.detach(uuid, first)
    cloud.cell.work_off()
    with cloud.cell.database.read() as connection:
        assert {port: device.address for port, device in host_devices.of_ports(connection, uuid).items()} == {
            second: cloud.profile(second)["pci_slot"]
        }
    assert cloud.used() == 1


def test_a_moved_server_takes_its_device_along(cloud: Cloud) -> None:
    uuid, port = cloud.boot(), cloud.port()
    cloud.attach(uuid, port)
    cloud.cell.migrate(uuid)
    cloud.cell.work_off()
    server = cloud.cell.instance(uuid)
    assert (server.vm_state, server.host, cloud.used()) == (VmState.RESIZED, "node2", 2)
    cloud.cell.confirm(uuid)
    cloud.cell.work_off()
    assert cloud.used() == 1
    cloud.cell.detach(uuid, port)
    cloud.cell.work_off()
    assert cloud.used() == 0


def test_the_device_is_near_the_cells_of_the_server(cell_of: NewCell) -> None:
    cells = tuple(SimulatedCell(2048, cpus=cpus) for cpus in ("0-1", "2-3"))
    cloud = Cloud(cell_of, replace(CARDS, numa_node=1), numa=cells)
    uuid = cloud.boot(flavor=replace(SMALL, extra_specs={"hw:numa_nodes": "1"}))
    with cloud.cell.database.read() as connection:
        (part,) = port_devices.share_of(connection, uuid).cells
    assert part.cell == 0
    cloud.attach(uuid, cloud.port())
    assert cloud.ports_of(uuid) == ()
    near_enough = cloud.port(numa_affinity_policy="preferred")
    cloud.attach(uuid, near_enough)
    assert cloud.ports_of(uuid) == (near_enough,)
    cloud.attach(uuid, cloud.port(numa_affinity_policy="wrong"))
    assert cloud.ports_of(uuid) == (near_enough,)
