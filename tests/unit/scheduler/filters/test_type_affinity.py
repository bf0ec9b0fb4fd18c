# SPDX-License-Identifier: Apache-2.0
from tests.unit.scheduler.small_cloud import flavor, host, request, table

from kilonova.scheduler.filters import TypeAffinityFilter
from kilonova.scheduler.guests import guest_kind


def test_a_host_runs_servers_of_one_flavor_at_most() -> None:
    hosts = table(
        host("empty"),
        host("mine", guests=(guest_kind("1", {}), guest_kind("1", {"os_distro": "a"}))),
        host("other", guests=(guest_kind("2", {}),)),
        host("mixed", guests=(guest_kind("1", {}), guest_kind("2", {}))),
    )
    assert TypeAffinityFilter().passes(hosts, request(flavor=flavor())).tolist() == [True, True, False, False]
    renamed = request(flavor=flavor(name="renamed"))
    assert TypeAffinityFilter().passes(hosts, renamed).tolist() == [True, True, False, False], "the id counts"
