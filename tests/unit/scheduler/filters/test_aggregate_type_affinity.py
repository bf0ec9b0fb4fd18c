# SPDX-License-Identifier: Apache-2.0
"""Vectors of AggregateTypeAffinityFilter that were executed against Nova's class."""

from collections.abc import Mapping

import pytest
from tests.unit.scheduler.small_cloud import flavor, one_host_in, request

from kilonova.scheduler.filters import AggregateTypeAffinityFilter


@pytest.mark.parametrize(
    ("name", "aggregates", "expected"),
    [
        ("m1", [{}], True),
        ("m1", [{"instance_type": "m1"}], True),
        ("m2", [{"instance_type": "m1, m2"}], True),
        ("m3", [{"instance_type": "m1"}, {"instance_type": "m3"}], True),
        ("m2", [{"instance_type": "m1"}], False),
        ("m2", [{"instance_type": "m1"}, {}], False),
        ("m2", [], True),
    ],
)
def test_the_flavor_must_be_listed_if_an_aggregate_lists_flavors(
    name: str, aggregates: list[Mapping[str, str]], expected: bool
) -> None:
    passed = AggregateTypeAffinityFilter().passes(one_host_in(*aggregates), request(flavor=flavor(name=name)))
    assert passed.tolist() == [expected]
