# SPDX-License-Identifier: Apache-2.0
from tests.unit.scheduler.small_cloud import host, request, table

from kilonova.scheduler.engine.engine import Engine
from kilonova.scheduler.explanations.explain import explain
from kilonova.scheduler.filters import ComputeFilter, IoOpsFilter
from kilonova.scheduler.resources import with_resources

ENGINE = Engine(filters=(ComputeFilter(), IoOpsFilter()), weighers=())
HOSTS = table(
    host("free"), host("off", disabled=True), host("busy", num_io_ops=99), host("both", disabled=True, num_io_ops=99)
)


def test_every_rule_judges_every_host_also_those_that_another_rule_keeps_out() -> None:
    story = explain(HOSTS, with_resources(request()), ENGINE)
    assert story.passed.tolist() == [True, False, False, False]
    assert story.hindrances.tolist() == [0, 1, 1, 2]
    assert [rule for rule, _ in story.reasons(3)] == ["ComputeFilter", "IoOpsFilter"]
    assert story.reasons(0) == ()
    assert not story.forced


def test_hosts_that_one_rule_alone_keeps_out_are_counted_by_rule() -> None:
    assert explain(HOSTS, with_resources(request()), ENGINE).only_hindrance() == {"ComputeFilter": 1, "IoOpsFilter": 1}


def test_a_forced_host_bypasses_the_filters() -> None:
    story = explain(HOSTS, with_resources(request(force_host="both")), ENGINE)
    assert story.forced
    assert story.passed.tolist() == [False, False, False, True]
    assert "ComputeFilter" not in {verdict.rule for verdict in story.verdicts}
