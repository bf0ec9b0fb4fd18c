# SPDX-License-Identifier: Apache-2.0
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from tests.unit.scheduler.small_cloud import aggregate, flavor, host, request, table

from kilonova.errors import InvalidRequest
from kilonova.model.aggregate import Aggregate
from kilonova.model.image import Image
from kilonova.model.request_spec import REBUILD_HINT
from kilonova.scheduler.engine.batch import Batch
from kilonova.scheduler.engine.engine import Engine
from kilonova.scheduler.explanations.explain import explain
from kilonova.scheduler.filters import AllHostsFilter
from kilonova.scheduler.host_table import HostTable
from kilonova.scheduler.isolation_rules import PREFIX, Candidate, Condition, parse_alternative, rule_of

TROVE = {PREFIX: "image.trove"}


def rules(number: int, hosts: str, metadata: Mapping[str, str]) -> Aggregate:
    return aggregate(number, tuple(hosts), **metadata)


def cloud(*aggregates: Aggregate, names: str = "abcd") -> HostTable:
    return table(*(host(name) for name in names), aggregates=aggregates)


def may_use(hosts: HostTable, **asked: Any) -> str:
    ranked = Engine(filters=(AllHostsFilter(),)).decide(hosts, request(**asked), limit=99).ranked
    return "".join(sorted(each.host for each in ranked))


@pytest.mark.parametrize(
    ("value", "conditions"),
    [
        ("image.trove", {("image", "trove", None)}),
        (" image.trove=true ", {("image", "trove", "true")}),
        ('image.os="a \\"b\\" \\\\ and c"', {("image", "os", 'a "b" \\ and c')}),
        ('image.os=""', {("image", "os", "")}),
        ("spec.hw:cpu_policy=dedicated", {("spec", "hw:cpu_policy", "dedicated")}),
        ("flavor=db.small and project=p-1", {("flavor", "", "db.small"), ("project", "", "p-1")}),
        ("trait=HW_A   and\ttrait=CUSTOM_B", {("trait", "", "HW_A"), ("trait", "", "CUSTOM_B")}),
        ("image.a and image.a and image.a=1", {("image", "a", None), ("image", "a", "1")}),
        ("image.and and flavor=and", {("image", "and", None), ("flavor", "", "and")}),
    ],
)
def test_conditions_are_read(value: str, conditions: set[tuple[str, str, str | None]]) -> None:
    read = parse_alternative(PREFIX, value)
    assert read == {Condition(*each) for each in conditions}
    assert parse_alternative(PREFIX, str(rule_of({PREFIX: value}))) == read


@pytest.mark.parametrize(
    ("key", "value", "complaint"),
    [
        (PREFIX, "", "the rule is empty"),
        (PREFIX, "flavour=x", "cannot read a condition at 'flavour=x'"),
        (PREFIX, "image.", "cannot read a condition"),
        (PREFIX, "image.a=", "cannot read a condition"),
        (PREFIX, "image.a,flavor=x", "cannot read a condition"),
        (PREFIX, "flavor=a,b", "cannot read a condition"),
        (PREFIX, "flavor=a&project=b", "cannot read a condition"),
        (PREFIX, 'flavor="a', "cannot read a condition"),
        (PREFIX, "flavor=a b", "expected 'and' between conditions at 'b'"),
        (PREFIX, "flavor=a and", "expected 'and' between conditions at 'and'"),
        (PREFIX, "flavor=a and and project=b", "cannot read a condition at 'and project=b'"),
        (PREFIX, 'project=""', "project is empty"),
        (PREFIX, "trait=hw_a", "'hw_a' is not a valid trait name"),
        (PREFIX, "flavor=a and flavor=b", "flavor cannot be both 'a' and 'b'"),
        (PREFIX, "spec.k=1 and spec.k=2", "spec.k cannot be both"),
        ("kilonova:only2", "flavor=a", "kilonova:only2 is not an isolation key"),
        ("kilonova:only.", "flavor=a", "is not an isolation key"),
        ("kilonova:only. x", "flavor=a", "is not an isolation key"),
        ("Kilonova:Only", "flavor=a", "is not an isolation key"),
    ],
)
def test_what_cannot_be_read_is_named(key: str, value: str, complaint: str) -> None:
    with pytest.raises(InvalidRequest, match=complaint.replace(".", r"\.")) as caught:
        parse_alternative(key, value)
    assert caught.value.message.startswith(key)


@pytest.mark.parametrize(
    ("rule", "asked", "met"),
    [
        ("image.k", {"properties": {"k": ""}}, True),
        ("image.k", {"properties": {}}, False),
        ("image.k", {}, False),
        ("image.k=true", {"properties": {"k": "True"}}, False),
        ("spec.k", {"extra_specs": {"k": "<or> a"}}, True),
        ("spec.k=a", {"extra_specs": {"k": "<or> a"}}, False),
        ("flavor=m1", {}, True),
        ("flavor=1", {}, False),
        ("project=p", {"project_id": "p"}, True),
        ("project=p", {"project_id": "P"}, False),
        ("trait=CUSTOM_A", {"extra_specs": {"trait:CUSTOM_A": "required"}}, True),
        ("trait=CUSTOM_A", {"extra_specs": {"trait_GPU:CUSTOM_A": "required"}}, True),
        ("trait=CUSTOM_A", {"extra_specs": {"trait:CUSTOM_A": "forbidden"}}, False),
        ("trait=CUSTOM_A", {"properties": {"trait:CUSTOM_A": "required"}}, True),
        ("trait=CUSTOM_A", {"properties": {"trait1:CUSTOM_A": "required"}}, False),
        ("flavor=m1 and image.k", {"properties": {}}, False),
        ("flavor=m1 and image.k", {"properties": {"k": "x"}}, True),
    ],
)
def test_a_rule_is_met(rule: str, asked: dict[str, Any], met: bool) -> None:
    spec = request(**asked)
    read = rule_of({PREFIX: rule})
    assert read is not None
    assert read.is_met(Candidate(spec.flavor, spec.image, spec.project_id)) is met


def test_without_a_rule_there_is_no_step() -> None:
    hosts = cloud(rules(1, "ab", {"trove": "true"}))
    assert hosts.aggregates.isolation is None
    assert [step.rule for step in Engine().decide(hosts, request(), limit=1).steps] == []


def test_only_these_servers_there_and_nowhere_else() -> None:
    hosts = cloud(rules(1, "d", TROVE))
    assert may_use(hosts, properties={"trove": "x"}) == "d"
    assert may_use(hosts, properties={}) == may_use(hosts) == "abc"


def test_keys_of_an_aggregate_are_alternatives_and_equal_rules_one_pool() -> None:
    hosts = cloud(
        rules(1, "a", {PREFIX: "image.trove", f"{PREFIX}.2": "flavor=db and project=p"}),
        rules(2, "b", {f"{PREFIX}.x": "project=p and flavor=db", f"{PREFIX}.y": "image.trove", "ssd": "true"}),
    )
    assert may_use(hosts, properties={"trove": ""}) == "ab"
    assert may_use(hosts, flavor=flavor(name="db"), project_id="p") == "ab"
    assert may_use(hosts, flavor=flavor(name="db"), project_id="q") == "cd"
    assert hosts.aggregates.isolation is not None
    assert len(hosts.aggregates.isolation.rules) == 1


def test_a_host_of_two_pools_needs_both_rules_and_a_server_of_both_needs_such_a_host() -> None:
    hosts = cloud(rules(1, "ab", TROVE), rules(2, "bc", {PREFIX: "project=p"}))
    assert may_use(hosts, properties={"trove": ""}) == "a"
    assert may_use(hosts, properties={"trove": ""}, project_id="p") == "b"
    assert may_use(hosts, project_id="p") == "c"
    assert may_use(hosts) == "d"
    apart = cloud(rules(1, "a", TROVE), rules(2, "b", {PREFIX: "project=p"}))
    assert may_use(apart, properties={"trove": ""}, project_id="p") == ""


def test_a_rule_without_hosts_keeps_its_servers_from_everywhere() -> None:
    hosts = cloud(rules(1, "z", TROVE))
    assert may_use(hosts, properties={"trove": ""}) == ""
    assert may_use(hosts) == "abcd"


@pytest.mark.parametrize("bad", [{f"{PREFIX}.2": "flavour=db"}, {" Kilonova:only2": "flavor=db"}])
def test_a_broken_rule_closes_its_hosts(bad: dict[str, str]) -> None:
    hosts = cloud(rules(1, "ab", {**TROVE, **bad}), rules(2, "bc", {PREFIX: "project=p"}))
    assert may_use(hosts) == "d"
    assert may_use(hosts, properties={"trove": ""}) == ""
    assert may_use(hosts, project_id="p") == "c"


@pytest.mark.parametrize("way", [{"force_host": "d"}, {"force_node": "d"}, {"requested_host": "d"}])
def test_no_way_around(way: dict[str, str]) -> None:
    hosts = cloud(rules(1, "d", TROVE))
    assert may_use(hosts, **way) == ""
    assert may_use(hosts, properties={"trove": ""}, **way) == "d"
    assert may_use(hosts, force_host="a", properties={"trove": ""}) == ""


def test_a_rebuild_with_another_image_is_checked() -> None:
    hosts = cloud(rules(1, "d", TROVE))
    asked = {"hints": {REBUILD_HINT: ("rebuild",)}, "requested_host": "a"}
    assert may_use(hosts, properties={}, **asked) == "a"
    assert may_use(hosts, properties={"trove": ""}, **asked) == ""


def test_the_reason_says_which_side_and_no_rule() -> None:
    hosts = cloud(rules(1, "d", TROVE))
    stranger = Engine().decide(hosts, request(), limit=9)
    assert [(step.rule, step.reason, step.removed) for step in stranger.steps] == [
        ("isolation", "reserved by isolation rules for other servers", 1)
    ]
    member = explain(hosts, request(properties={"trove": ""}), Engine())
    assert member.reasons(0) == (("isolation", "outside the hosts of the server's isolation rules"),)
    assert member.reasons(3) == ()


def test_all_servers_of_a_request_stay_where_they_belong() -> None:
    for properties, right in (({"trove": ""}, {"c", "d"}), ({}, {"a", "b"})):
        batch = Batch(Engine(), cloud(rules(1, "cd", TROVE)), request(properties=properties), limit=9)
        for _ in range(4):
            ranked = batch.decide().ranked
            assert {each.host for each in ranked} == right
            batch.place(ranked[0].row)


def test_some_rows_of_a_table_are_under_the_same_rules() -> None:
    part = cloud(rules(1, "cd", TROVE)).take(np.array([3, 1]))
    assert (part.hosts, may_use(part), may_use(part, properties={"trove": ""})) == (("d", "b"), "b", "d")


def test_text_of_a_rule_reads_back() -> None:
    rule = rule_of({PREFIX: 'flavor="big one" and image.a', f"{PREFIX}.2": "project=p", f"{PREFIX}.3": "nonsense"})
    assert str(rule) == 'flavor="big one" and image.a | project=p | kilonova:only.3=nonsense'


def test_servers_from_images_that_say_nothing_are_the_same_as_without_an_image() -> None:
    asked = [request(), request(image=Image("x"))]
    hosts = cloud(rules(1, "d", TROVE))
    isolation = hosts.aggregates.isolation
    assert isolation is not None
    masks = [isolation.hosts_under(isolation.met_by(Candidate(each.flavor, each.image, "p"))) for each in asked]
    assert np.array_equal(*masks)
