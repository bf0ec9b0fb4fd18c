# SPDX-License-Identifier: Apache-2.0
from tests.unit.scheduler.small_cloud import host, request, table

from kilonova.scheduler.filters import RetryFilter


def test_only_the_tried_hypervisors_are_left_out() -> None:
    hosts = table(host("a", node="a1"), host("a", node="a2"), host("b"))
    tried = (("a", "a2"), ("b", "elsewhere"), ("gone", "gone"))
    assert RetryFilter().passes(hosts, request(tried=tried)).tolist() == [True, False, True]
    assert RetryFilter().passes(hosts, request()).tolist() == [True, True, True]
