# SPDX-License-Identifier: Apache-2.0
from tests.unit.scheduler.small_cloud import host, request, table

from kilonova.scheduler.filters import ComputeFilter
from kilonova.scheduler.settings import SchedulerConfig


def test_a_compute_service_must_be_enabled_and_up() -> None:
    hosts = table(
        host("fresh", last_seen=1000.0),
        host("at the limit", last_seen=940.0),
        host("silent", last_seen=939.9),
        host("from the future", last_seen=1061.0),
        host("disabled", last_seen=1000.0, disabled=True),
        host("forced down", last_seen=1000.0, forced_down=True),
        taken_at=1000.0,
    )
    rule = ComputeFilter.configured(SchedulerConfig(service_down_time=60))
    assert rule.passes(hosts, request()).tolist() == [True, True, False, False, False, False]
