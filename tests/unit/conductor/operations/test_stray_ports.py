# SPDX-License-Identifier: Apache-2.0
"""Stray ports are found, and deleted only if Kilonova created them for a server that was deleted."""

from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy as sa

from kilonova.conductor.operations.stray_ports import StrayPorts
from kilonova.db.core import tables as t
from kilonova.errors import Conflict, InvalidRequest, NotFound
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
    return {each.port_id: each.kind for each in strays(cell).page(None, 1000).strays}


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
    (stray,) = strays(cell).page(None, 1000).strays
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
    for port in (lost, taken):
        with pytest.raises(NotFound, match="not stray"):
            strays(cell).remove(port, asker("req-audit"))


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
    reads: list[str] = []

    def leave(call: str) -> None:
        reads.append(call)
        if len(reads) == 2:  # after the first read
            neutron.store["ports"].pop(late)

    neutron.before_call = leave
    assert found(cell) == {}
    assert reads[:2] == ["GET ports", "GET ports"]


def test_a_cloud_without_a_network_service(cell_of: NewCell) -> None:
    cell = cell_of(host("node1"))
    with pytest.raises(Conflict, match="No network service"):
        strays(cell).page(None, 10)
    with pytest.raises(Conflict, match="No network service"):
        strays(cell).count("me", timedelta(0), lambda: False)
    assert strays(cell).numbers() is None


def test_the_pages_have_every_stray_port_once(cell: Cell, neutron: FakeNeutron, private: str) -> None:
    servers = [boot(cell, private) for _ in range(4)]
    for uuid in servers[:3]:
        for vif in cell.interfaces(uuid):
            neutron.store["ports"].pop(vif.port_id)
    unknown = {port_for(neutron, private, new_uuid()) for _ in range(5)}
    whole = list(found(cell))
    assert set(whole[:5]) == unknown
    assert len(whole) == 8
    for limit in (1, 2, 5, 8):
        listed, marker = [], None
        while True:
            page = strays(cell).page(marker, limit)
            assert len(page.strays) <= limit
            listed += [each.port_id for each in page.strays]
            if (marker := page.following) is None:
                break
        assert listed == whole
    assert strays(cell).page(None, 0) == ((), None)


def test_a_marker_of_a_port_that_is_gone(cell: Cell, neutron: FakeNeutron, private: str) -> None:
    for _ in range(3):
        port_for(neutron, private, new_uuid())
    (first,), marker = strays(cell).page(None, 1)
    neutron.delete("ports", first.port_id)
    with pytest.raises(NotFound):
        strays(cell).page(marker, 1)
    for text in ("", "port:", "port:../x", "server", f"{marker}&x=1"):
        with pytest.raises(InvalidRequest, match="marker"):
            strays(cell).page(text, 1)


def age(cell: Cell, column: str) -> None:
    """Let a day pass since a time of the count."""
    yesterday = {column: cell.database.clock.now() - timedelta(days=1)}
    cell.database.write(lambda tx: tx.execute(sa.update(t.shared_tasks).values(yesterday)))


def test_one_process_counts_for_all(cell: Cell, neutron: FakeNeutron, private: str) -> None:
    boot(cell, private)
    lost = boot(cell, private)
    neutron.store["ports"].pop(cell.interfaces(lost)[0].port_id)
    port_for(neutron, private, new_uuid())
    operations, hour = strays(cell), timedelta(hours=1)
    assert not operations.count("one", hour, lambda: True), "it is stopped"
    assert operations.numbers() is None
    assert not operations.count("two", hour, lambda: False), "the run still belongs to the other process"
    age(cell, "seen_at")
    assert operations.count("two", hour, lambda: False)
    numbers = operations.numbers()
    assert numbers is not None
    assert numbers.by_kind == {
        each: int(each in {StrayPortKind.UNKNOWN, StrayPortKind.MISSING}) for each in StrayPortKind
    }
    calls = len(neutron.faults.calls)
    assert not operations.count("one", hour, lambda: False), "it is not due"
    assert len(neutron.faults.calls) == calls
    age(cell, "finished_at")
    assert operations.count("one", hour, lambda: False)


def test_a_count_whose_run_is_taken_over_ends_without_a_result(cell: Cell, private: str) -> None:
    boot(cell, private)
    others: list[bool] = []

    def lose() -> bool:
        if not others:
            age(cell, "seen_at")
            others.append(strays(cell).count("two", timedelta(0), lambda: False))
        return False

    assert not strays(cell).count("one", timedelta(0), lose)
    assert others == [True]
