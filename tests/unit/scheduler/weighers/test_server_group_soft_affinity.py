# SPDX-License-Identifier: Apache-2.0
from tests.unit.scheduler.small_cloud import host, request, table
from tests.unit.scheduler.weighers.rated import rated

from kilonova.model.server_group import GroupView
from kilonova.scheduler.weighers import ServerGroupSoftAffinityWeigher

HOSTS = table(host("a"), host("b"), host("b", node="b2"))


def test_the_rating_is_the_number_of_members_on_the_host() -> None:
    together = request(group=GroupView("g", "soft-affinity", hosts={"b": 2, "gone": 1}))
    assert rated(ServerGroupSoftAffinityWeigher(), HOSTS, together) == [0, 2, 2]


def test_other_requests_are_not_rated() -> None:
    apart = request(group=GroupView("g", "soft-anti-affinity", hosts={"b": 2}))
    assert rated(ServerGroupSoftAffinityWeigher(), HOSTS, apart) is None
    assert rated(ServerGroupSoftAffinityWeigher(), HOSTS) is None
