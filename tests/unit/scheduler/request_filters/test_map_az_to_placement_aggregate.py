# SPDX-License-Identifier: Apache-2.0
import pytest
from tests.unit.scheduler.request_filters.applied import index
from tests.unit.scheduler.small_cloud import request

from kilonova.scheduler.request_filters import MapAzToPlacementAggregate


@pytest.mark.parametrize(("zone", "expected"), [(None, ()), ("", ()), ("nova", ()), ("z", (frozenset({"u0", "u2"}),))])
def test_a_zone_is_mapped_to_its_aggregates(zone: str | None, expected: tuple[frozenset[str], ...]) -> None:
    zones = index({"availability_zone": "z"}, {"availability_zone": "y"}, {"availability_zone": "z"}, {})
    spec = MapAzToPlacementAggregate().apply(request(availability_zone=zone), zones)
    assert spec.query.member_of == expected


def test_the_condition_is_added_to_those_of_the_query() -> None:
    spec = request(availability_zone="z").with_query(member_of=(frozenset({"u9"}),))
    spec = MapAzToPlacementAggregate().apply(spec, index({"availability_zone": "z"}))
    assert spec.query.member_of == (frozenset({"u9"}), frozenset({"u0"}))
