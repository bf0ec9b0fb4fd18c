# SPDX-License-Identifier: Apache-2.0
"""Findings of the audit of isolation rules."""

import pytest
from tests.unit.scheduler.isolation.audited_cloud import PLAIN, SMALL, TAGGED, Cloud, pool
from tests.unit.scheduler.small_cloud import aggregate

from kilonova.model.image import Image
from kilonova.model.placed_server import PlacedServer
from kilonova.scheduler.isolation.audit import FAULT, LEAK, NOTE
from kilonova.scheduler.isolation.universe import ANY_OTHER_PROJECT, Group


def server(name: str, where: str, image: Image | None = PLAIN) -> PlacedServer:
    return PlacedServer(f"uuid-{name}", name, where, "p", SMALL, image)


def test_a_cloud_without_rules_has_nothing_to_find() -> None:
    report = Cloud([aggregate(1, ("a",), ssd="true")]).audit()
    assert report.is_clean
    assert (report.findings, report.pools, report.open_hosts) == ((), (), ("a", "b", "c", "d"))


def test_who_may_enter_is_proved_and_tagging_is_noted() -> None:
    report = Cloud([pool(1, "c", "image.trove"), pool(2, "d", "image.trove")]).audit()
    (only,) = report.pools
    assert (only.rule, only.aggregates, only.hosts) == ("image.trove", ("aggregate1", "aggregate2"), ("c", "d"))
    assert only.may_enter == (Group(("small",), ("tagged",), (ANY_OTHER_PROJECT,)),)
    assert report.open_hosts == ("a", "b")
    assert [(each.kind, each.severity) for each in report.findings] == [("unprotected property", NOTE)]
    assert report.is_clean


def test_servers_that_run_in_the_wrong_place_are_named() -> None:
    placed = [server("stranger", "d"), server("stray", "a", TAGGED), server("right", "d", TAGGED), server("free", "b")]
    found = Cloud([pool(1, "d", "image.trove")], servers=placed).found()
    assert [each.name for each in found["stranger"].servers] == ["stranger"]
    assert [each.name for each in found["stray"].servers] == ["stray"]
    assert (found["stranger"].severity, found["stray"].severity) == (LEAK, LEAK)
    assert (found["stranger"].hosts, found["stray"].hosts) == (("d",), ("a",))


def test_servers_on_hosts_that_are_gone_are_looked_at_too() -> None:
    found = Cloud([pool(1, "dz", "image.trove")], servers=[server("stranger", "z")]).found()
    assert found["stranger"].hosts == ("z",)


def test_a_server_of_an_unknown_image_meets_no_condition_on_images() -> None:
    found = Cloud([pool(1, "d", "image.trove")], servers=[server("old", "d", None)]).found()
    assert found["stranger"].servers[0].name == "old"


def test_a_rule_that_cannot_be_read_is_found() -> None:
    cloud = Cloud([pool(1, "d", "flavour=small")], servers=[server("inside", "d")])
    report = cloud.audit()
    assert report.pools[0].may_enter == ()
    found = cloud.found()
    assert found["broken rule"].severity == FAULT
    assert "kilonova:only.0: cannot read a condition" in found["broken rule"].what
    assert found["stranger"].servers[0].name == "inside"
    assert "unmet rule" not in found


def test_a_pool_without_hosts_and_what_can_be_used_no_more() -> None:
    found = Cloud([pool(1, "", "image.trove")]).found()
    assert found["empty pool"].who == (Group(("small",), ("tagged",), (ANY_OTHER_PROJECT,)),)
    assert found["unusable image"].what.startswith("Servers of image tagged find no host")
    assert "unusable flavor" not in found
    everybody = Cloud([pool(1, "", "flavor=small")]).found()
    assert "flavor small" in everybody["unusable flavor"].what
    assert "image tagged, plain" in everybody["unusable image"].what


@pytest.mark.parametrize("rule", ["image.trov", "flavor=smal", "spec.pool", "trait=CUSTOM_X", "image.trove=yes"])
def test_a_rule_that_nothing_meets_is_found(rule: str) -> None:
    finding = Cloud([pool(1, "d", rule)]).found()["unmet rule"]
    assert (finding.severity, finding.hosts, finding.rules) == (FAULT, ("d",), (rule,))


def test_rules_that_overlap_are_named_and_are_a_fault_without_a_common_host() -> None:
    rules = pool(1, "ab", "image.trove"), pool(2, "cb", "project=p")
    shared = Cloud(rules).found()["overlap"]
    assert (shared.severity, shared.hosts) == (NOTE, ("b",))
    assert shared.who == (Group(("small",), ("tagged",), ("p",)),)
    apart = Cloud([rules[0], pool(2, "cd", "project=p")]).found()["overlap"]
    assert (apart.severity, apart.hosts) == (FAULT, ())
