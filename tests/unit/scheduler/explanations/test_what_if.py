# SPDX-License-Identifier: Apache-2.0
from tests.unit.scheduler.small_cloud import flavor, host, request, table

from kilonova.scheduler.engine.engine import Engine
from kilonova.scheduler.explanations.what_if import what_if
from kilonova.scheduler.filters import ComputeFilter
from kilonova.scheduler.weighers import CPUWeigher

ENGINE = Engine(filters=(ComputeFilter(),), weighers=(CPUWeigher(),))


def test_servers_are_placed_one_after_the_other_on_a_copy_of_the_cloud() -> None:
    hosts = table(host("a"), host("b", used={"VCPU": 20}))
    before = hosts.used.copy()
    found = what_if(hosts, request(flavor=flavor(vcpus=16)), ENGINE, count=2)
    assert found.fits
    assert [each.host for each in found.chosen if each] == ["a", "a"]
    assert (found.explained, found.nearest) == (0, ())
    assert (hosts.used == before).all()


def test_the_first_server_without_a_host_is_explained_and_ends_the_placing() -> None:
    found = what_if(table(host("a")), request(flavor=flavor(vcpus=16)), ENGINE, count=4)
    assert not found.fits
    assert [each and each.host for each in found.chosen] == ["a", "a", None]
    assert (found.explained, len(found.decisions)) == (2, 3)
    assert not found.explanation.passed.any()
    assert found.nearest
