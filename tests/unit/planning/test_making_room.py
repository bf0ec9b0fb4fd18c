# SPDX-License-Identifier: Apache-2.0
from tests.unit.planning.test_drain import cloud_of, server

from kilonova.model.move_plan import How
from kilonova.planning.destinations import Destinations
from kilonova.planning.making_room import MakingRoom

KINDS = How.COLD.kinds
BIG = server("big", 0, 4)
OTHERS = (server("one", 1, 2, disk_gib=9), server("two", 2, 1, disk_gib=2), server("three", 2, 1, disk_gib=1))


def search(*, movable: set[str], tries: int = 10) -> list[tuple[str, int]] | None:
    cloud = cloud_of([4, 4, 4, 2], BIG, *OTHERS)
    destinations = Destinations(cloud, {"host0"})
    kinds = dict.fromkeys(movable, KINDS)
    making = MakingRoom(destinations, lambda each: kinds.get(each.uuid, ()), lambda each: each.disk_gib, tries)
    room = making.find(BIG, KINDS)
    assert all(cloud.row_of(each) == each.row for each in (BIG, *OTHERS)), "the cloud does not change"
    return None if room is None else [(each.server.uuid, room.to.row) for each in room.displaced]


def test_the_servers_of_the_fewest_gib_make_room() -> None:
    assert search(movable={"one", "two", "three"}) == [("three", 2), ("two", 2)]
    assert search(movable={"one", "two"}) == [("one", 1)]


def test_the_search_is_bounded() -> None:
    assert search(movable={"one", "two", "three"}, tries=0) is None
    assert search(movable=set()) is None
