# SPDX-License-Identifier: Apache-2.0
from tests.unit.scheduler.small_cloud import host, request, table

from kilonova.scheduler.filters import AllHostsFilter


def test_all_hosts_pass_all_hosts() -> None:
    hosts = table(host("a"), host("b", disabled=True))
    assert AllHostsFilter().passes(hosts, request()).tolist() == [True, True]
