# SPDX-License-Identifier: Apache-2.0
from kilonova.model.aggregate import Aggregate
from kilonova.model.flavor import Flavor
from kilonova.model.provider import Inventory
from kilonova.model.request_spec import RequestSpec
from kilonova.planning.capacity import capacity
from kilonova.planning.hindrance import Hindrance
from kilonova.planning.places import aggregates, by_place, zones
from kilonova.scheduler.engine.engine import Engine
from kilonova.scheduler.host_records import HostRecord, build_host_table

RECORDS = [HostRecord(f"n{number}", (Inventory("VCPU", 4),)) for number in range(3)]
SSD = Aggregate(1, "u1", "ssd", ("n0", "n1"))
EAST = Aggregate(2, "u2", "east", ("n1",), {"availability_zone": "east"})
EMPTY = Aggregate(3, "u3", "empty", ("gone",))
HOSTS = build_host_table(RECORDS, [SSD, EAST, EMPTY])
FULL = Hindrance("Placement: VCPU", "cannot give 2 VCPU", 1)


def test_aggregates_and_the_hosts_in_none() -> None:
    found = {place.name: place.members.tolist() for place in aggregates(HOSTS)}
    assert found == {"ssd": [True, True, False], "east": [False, True, False], None: [False, False, True]}


def test_zones_and_the_default_zone() -> None:
    found = {place.name: place.members.tolist() for place in zones(HOSTS, "nova")}
    assert found == {"east": [False, True, False], "nova": [True, False, True]}


def test_servers_and_reasons_of_each_place() -> None:
    found = capacity(HOSTS, RequestSpec(Flavor("1", "m1", 2, 0, 0)), Engine())
    assert found.placed is not None
    assert found.last is not None
    ssd, east, others = by_place(aggregates(HOSTS), found.placed, found.last)
    assert (ssd.fits, east.fits, others.fits) == (4, 2, 2)
    assert (east.reasons, east.hosts) == ((FULL,), 1)
