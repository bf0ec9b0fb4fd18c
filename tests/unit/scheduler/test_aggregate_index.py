# SPDX-License-Identifier: Apache-2.0
from tests.unit.scheduler.small_cloud import aggregate, host, table

from kilonova.scheduler.host_records import build_host_table


def test_aggregates_are_compiled_against_the_rows() -> None:
    hosts = table(host("a"), host("b"), aggregates=(aggregate(1, ("b", "gone"), k="v"), aggregate(2, ("a", "b"))))
    assert hosts.aggregates.hosts_in_any([True, False]).tolist() == [False, True]
    assert hosts.aggregates.hosts_in_any([False, False]).tolist() == [False, False]
    assert [each.id for each in hosts.aggregates.of_host(1)] == [1, 2]
    assert build_host_table([host()]).aggregates.hosts_in_any([]).tolist() == [False]
