# SPDX-License-Identifier: Apache-2.0
"""The search for stray ports in batches looks at every port and every server once."""

import pytest

from kilonova.conductor.operations.stray_port_search import BEGINNING, Batch, Place, StrayPortSearch
from kilonova.errors import InvalidRequest
from kilonova.identifiers import new_uuid
from support.cell import Cell, NewCell, host, networks
from support.fake_neutron import FakeNeutron


@pytest.fixture
def neutron() -> FakeNeutron:
    return FakeNeutron()


@pytest.fixture
def cell(cell_of: NewCell, neutron: FakeNeutron) -> Cell:
    cell = cell_of(host("node1"), neutron=neutron)
    private = neutron.make_network()
    for _ in range(3):
        cell.boot(networks=networks(private))
        cell.work_off()
        neutron.make_port(private, device_id=new_uuid(), device_owner="compute:nova")
        neutron.make_port(private)
    return cell


def batches(search: StrayPortSearch) -> list[Batch]:
    found, place = [], BEGINNING
    while True:
        found.append(search.batch(place))
        following = found[-1].following
        if following is None:
            return found
        assert Place.read(str(following)) == following
        place = following


@pytest.mark.parametrize(("ports", "servers"), [(1, 1), (2, 2), (500, 200)])
def test_every_batch_size_finds_the_same(cell: Cell, neutron: FakeNeutron, ports: int, servers: int) -> None:
    search = StrayPortSearch(neutron, cell.database, ports_at_once=ports, servers_at_once=servers)
    found = batches(search)
    strays = [stray for batch in found for stray, _ in batch.found]
    assert len(strays) == 3
    assert len({stray.port_id for stray in strays}) == 3
    assert sum(batch.looked_at for batch in found) >= 9 + 3
    assert max(batch.looked_at for batch in found) <= max(ports, servers + 1)


def test_missing_ports_are_found_with_every_batch_size(cell: Cell, neutron: FakeNeutron) -> None:
    neutron.store["ports"].clear()
    for size in (1, 2, 200):
        search = StrayPortSearch(neutron, cell.database, servers_at_once=size)
        assert len([stray for batch in batches(search) for stray, _ in batch.found]) == 3


def test_a_port_that_goes_between_two_batches_ends_nothing(cell: Cell, neutron: FakeNeutron) -> None:
    search = StrayPortSearch(neutron, cell.database, ports_at_once=4)
    first = search.batch()
    ids = sorted(neutron.store["ports"])
    for port_id in ids[2:4]:
        neutron.store["ports"].pop(port_id)
    assert first.following == Place(ids[3])
    second = search.batch(first.following)
    assert second.following == Place(ids[7])


@pytest.mark.parametrize("text", ["", "port:", "server:/x y", "port:a/b", "port:a&b=c", "server:a/b/c"])
def test_a_text_that_is_no_place(text: str) -> None:
    with pytest.raises(InvalidRequest):
        Place.read(text)


@pytest.mark.parametrize("place", [Place("a-1"), Place(server=""), Place(None, "s-1"), Place(None, "s-1", "p-1")])
def test_a_place_as_text(place: Place) -> None:
    assert Place.read(str(place)) == place
