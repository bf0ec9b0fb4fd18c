# SPDX-License-Identifier: Apache-2.0
"""Vectors of AggregateMultiTenancyIsolation that were executed against Nova's class."""

from collections.abc import Mapping

import pytest
from tests.unit.scheduler.small_cloud import one_host_in, request

from kilonova.scheduler.filters import AggregateMultiTenancyIsolation


@pytest.mark.parametrize(
    ("aggregates", "expected"),
    [
        ([], True),
        ([{"x": "y"}], True),
        ([{"filter_tenant_id": "p"}], True),
        ([{"filter_tenant_id": "q"}], False),
        ([{"filter_tenant_id": "q,p"}], True),
        ([{"filter_tenant_id3": "p"}], True),
        ([{"filter_tenant_id": "q"}, {"filter_tenant_id": "p"}], True),
    ],
)
def test_only_the_projects_that_an_aggregate_names_pass(aggregates: list[Mapping[str, str]], expected: bool) -> None:
    passed = AggregateMultiTenancyIsolation().passes(one_host_in(*aggregates), request(project_id="p"))
    assert passed.tolist() == [expected]
