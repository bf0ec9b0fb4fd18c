# SPDX-License-Identifier: Apache-2.0
import pytest
from tests.unit.scheduler.request_filters.applied import index
from tests.unit.scheduler.small_cloud import request

from kilonova.errors import RequestFilterFailed
from kilonova.scheduler.request_filters import RequireTenantAggregate

TENANTS = index({"filter_tenant_id3": "p"}, {"filter_tenant_id": "p,q"}, {"filter_tenant_id": "q"}, {"x": "p"})


def test_a_project_is_sent_to_the_aggregates_that_name_it() -> None:
    spec = RequireTenantAggregate().apply(request(project_id="p"), TENANTS)
    assert spec.query.member_of == (frozenset({"u0"}),)
    assert RequireTenantAggregate(required=True).apply(request(project_id="q"), TENANTS).query.member_of


def test_a_project_that_no_aggregate_names_goes_anywhere_unless_it_must_be_named() -> None:
    spec = request(project_id="r")
    assert RequireTenantAggregate().apply(spec, TENANTS) == spec
    with pytest.raises(RequestFilterFailed):
        RequireTenantAggregate(required=True).apply(spec, TENANTS)
