# SPDX-License-Identifier: Apache-2.0
import pytest
from tests.unit.scheduler.request_filters.applied import index
from tests.unit.scheduler.small_cloud import request

from kilonova.scheduler.request_filters import IsolateAggregates


@pytest.mark.parametrize(
    ("extra_specs", "properties", "expected"),
    [
        ({}, {}, {"u0", "u1"}),
        ({"trait:CUSTOM_A": "required"}, {}, {"u1"}),
        ({"trait2:CUSTOM_A": "required"}, {"trait:CUSTOM_B": "required"}, set()),
        ({"trait:CUSTOM_A": "forbidden"}, {}, {"u0", "u1"}),
    ],
)
def test_reserved_aggregates_are_closed_to_requests_without_their_traits(
    extra_specs: dict[str, str], properties: dict[str, str], expected: set[str]
) -> None:
    reserved = index(
        {"trait:CUSTOM_A": "required"},
        {"trait:CUSTOM_A": "required", "trait:CUSTOM_B": "required"},
        {"trait:CUSTOM_C": "forbidden"},
    )
    spec = IsolateAggregates().apply(request(extra_specs, properties), reserved)
    assert spec.query.forbidden_aggregates == expected
