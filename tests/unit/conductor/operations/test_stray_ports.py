# SPDX-License-Identifier: Apache-2.0
"""Stray ports are found, and deleted only if Kilonova created them for a server that was deleted."""

from dataclasses import replace
from typing import Any

import pytest

from kilonova.conductor.operations.stray_ports import StrayPorts
from kilonova.errors import Conflict, NotFound
from kilonova.identifiers import new_uuid
from kilonova.model.stray_port import StrayPortKind
from kilonova.network.port_owner import mark_of
from support.cell import Cell, NewCell, asker, host, networks
from support.fake_neutron import FakeNeutron


@pytest.fixture
def neutron() -> FakeNeutron:
    return FakeNeutron()


@pytest.fixture
def private(neutron: FakeNeutron) -> str:
    return neutron.make_network()


@pytest.fixture
def cell(cell_of: NewCell, neutron: FakeNeutron) -> Cell:
    return cell_of(host("node1"), neutron=neutron)


def boot(cell: Cell, private: str) -> str:
    (uuid,) = cell.boot(networks=networks(private))
    cell.work_off()
    return uuid


def strays(cell: Cell) -> StrayPorts:
    return cell.conductor.operations.stray_ports


def found(cell: Cell) -> dict[str, StrayPortKind]:
    return {each.port_id: each.kind for each in strays(cell).find()}


def port_for(neutron: FakeNeutron, private: str, device: str, **more: Any) -> str:
    values = {
        "network_id": private,
        "project_id": "wonder",
        "device_id": device,
        "device_owner": "compute:nova",
        "description": mark_of(device),
        **more,
    }
    return str(neutron.create("ports", values)["id"])


def test_a_cloud_at_rest_has_none(cell: Cell, neutron: FakeNeutron, private: str) -> None:
    boot(cell, private)
    cell.boot()
    cell.work_off()
    port_for(neutron, private, "reserved_dhcp_port", device_owner="network:dhcp")
    assert found(cell) == {}


def test_a_port_that_was_created_after_the_delete_of_its_server(cell: Cell, neutron: FakeNeutron, private: str) -> None:
    uuid = boot(cell, private)
    cell.delete(uuid)
    cell.work_off()
    late = port_for(neutron, private, uuid)
    (stray,) = strays(cell).find()
    assert (stray.port_id, stray.instance_uuid, stray.kind) == (late, uuid, StrayPortKind.DELETED)
    assert (stray.is_removable, stray.project_id) == (True, "wonder")
    strays(cell).remove(late, asker("req-audit"))
    assert found(cell) == {}
    assert late not in neutron.store["ports"]
    with pytest.raises(NotFound, match="not stray"):
        strays(cell).remove(late, asker("req-audit"))


def test_a_port_of_the_user_is_listed_and_kept(cell: Cell, neutron: FakeNeutron, private: str) -> None:
    uuid = boot(cell, private)
    cell.delete(uuid)
    cell.work_off()
    ports = [port_for(neutron, private, uuid, description=text) for text in ("", mark_of(new_uuid()))]
    assert found(cell) == dict.fromkeys(ports, StrayPortKind.DELETED)
    for port in ports:
        with pytest.raises(Conflict, match="does not delete it"):
            strays(cell).remove(port, asker("req-audit"))
    assert neutron.store["ports"].keys() >= set(ports)


def test_ports_of_other_clouds_and_superfluous_ones_are_kept(cell: Cell, neutron: FakeNeutron, private: str) -> None:
    uuid = boot(cell, private)
    unknown, unused = port_for(neutron, private, new_uuid()), port_for(neutron, private, uuid)
    assert found(cell) == {unknown: StrayPortKind.UNKNOWN, unused: StrayPortKind.UNUSED}
    for port in (unknown, unused):
        with pytest.raises(Conflict, match="not known as deleted"):
            strays(cell).remove(port, asker("req-audit"))
    (used,) = (vif.port_id for vif in cell.interfaces(uuid))
    with pytest.raises(NotFound):
        strays(cell).remove(used, asker("req-audit"))


def test_an_interface_without_its_port(cell: Cell, neutron: FakeNeutron, private: str) -> None:
    uuid, other = boot(cell, private), boot(cell, private)
    (lost,), (taken,) = ([vif.port_id for vif in cell.interfaces(each)] for each in (uuid, other))
    neutron.store["ports"].pop(lost)  # without an event
    neutron.update("ports", taken, {"device_id": "a router", "device_owner": "network:router_interface"})
    assert found(cell) == dict.fromkeys((lost, taken), StrayPortKind.MISSING)
    with pytest.raises(Conflict, match="not known as deleted"):
        strays(cell).remove(lost, asker("req-audit"))


def test_a_server_with_a_workflow_is_left_out(cell: Cell, neutron: FakeNeutron, private: str) -> None:
    uuid = boot(cell, private)
    (port,) = (vif.port_id for vif in cell.interfaces(uuid))
    neutron.store["ports"].pop(port)  # without an event
    port_for(neutron, private, uuid)
    cell.power(uuid, "stop")
    assert found(cell) == {}
    cell.work_off()
    assert len(found(cell)) == 2


def test_a_port_that_goes_between_the_reads_is_not_stray(cell: Cell, neutron: FakeNeutron, private: str) -> None:
    uuid = boot(cell, private)
    cell.delete(uuid)
    cell.work_off()
    late = port_for(neutron, private, uuid)
    listed: list[int] = []
    whole = neutron.list

    class Leaving(FakeNeutron):
        """Network service whose late port is deleted after the first list."""

        def list(self, kind: str, *, token: str | None = None, **filters: object) -> Any:
            answer = whole(kind, token=token, **filters)
            if not listed:
                neutron.delete("ports", late)
            listed.append(len(answer))
            return answer

    services = cell.conductor.runner.services
    assert StrayPorts(replace(services, network_client=Leaving())).find() == ()
    assert listed == [1, 0]


def test_a_cloud_without_a_network_service(cell_of: NewCell) -> None:
    cell = cell_of(host("node1"))
    with pytest.raises(Conflict, match="No network service"):
        strays(cell).find()
