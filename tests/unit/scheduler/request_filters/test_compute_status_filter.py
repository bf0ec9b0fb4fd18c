# SPDX-License-Identifier: Apache-2.0
from tests.unit.scheduler.request_filters.applied import NO_AGGREGATES
from tests.unit.scheduler.small_cloud import request

from kilonova.scheduler.request_filters import ComputeStatusFilter


def test_disabled_hosts_are_forbidden_at_the_root_beside_the_conditions_of_the_query() -> None:
    spec = request().with_query(forbidden=frozenset({"X"}))
    spec = ComputeStatusFilter().apply(spec, NO_AGGREGATES)
    assert spec.query.forbidden == {"X"}
    assert spec.query.root_forbidden == {"COMPUTE_STATUS_DISABLED"}
