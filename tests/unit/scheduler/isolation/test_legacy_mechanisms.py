# SPDX-License-Identifier: Apache-2.0
"""Leaks of the legacy mechanisms of isolation, and mechanisms that are off."""

from dataclasses import dataclass, field

import pytest
from tests.unit.scheduler.isolation.audited_cloud import NOTHING, PLAIN, SMALL, TAGGED, Cloud, pool
from tests.unit.scheduler.small_cloud import flavor, host, table

from kilonova.model.image import Image
from kilonova.scheduler.isolation.audit import LEAK, NOTE, audit
from kilonova.scheduler.isolation.universe import ANY_OTHER_PROJECT, Group, OfferedFlavor
from kilonova.scheduler.settings import SchedulerConfig

EXTRA_SPECS = "AggregateInstanceExtraSpecsFilter"
TROVE = OfferedFlavor(flavor({"aggregate_instance_extra_specs:CPU": "Trove"}, name="trove", flavor_id="9"))


def enabling(*filters: str) -> SchedulerConfig:
    return SchedulerConfig(enabled_filters=filters)


def test_flavors_without_the_extra_spec_leak_into_its_hosts() -> None:
    cloud = Cloud([pool(1, "d", CPU="Trove")], [OfferedFlavor(SMALL), TROVE], config=enabling(EXTRA_SPECS))
    (finding,) = cloud.audit().findings
    assert finding.kind == f"{EXTRA_SPECS}, CPU=Trove: strangers"
    assert (finding.severity, finding.aggregates, finding.hosts) == (LEAK, ("aggregate1",), ("d",))
    assert finding.who == (Group(("small",), (NOTHING, "plain", "tagged"), (ANY_OTHER_PROJECT,)),)


def test_a_rule_of_isolation_mends_the_leaks_of_legacy_mechanisms() -> None:
    closed = pool(1, "d", "spec.aggregate_instance_extra_specs:CPU=Trove", CPU="Trove")
    offered = [OfferedFlavor(SMALL), TROVE]
    for config in (enabling(EXTRA_SPECS), enabling()):
        assert Cloud([closed], offered, config=config).audit().findings == ()


def test_an_extra_spec_whose_filter_is_off_has_no_effect() -> None:
    finding = Cloud([pool(1, "d", CPU="Trove")], [OfferedFlavor(SMALL), TROVE]).found()["no effect"]
    assert finding.severity == LEAK
    assert "trove" in finding.what
    assert EXTRA_SPECS in finding.remedy


def test_images_without_the_property_leak_in_and_those_with_it_leak_out() -> None:
    cloud = Cloud([pool(1, "d", trove="true"), pool(2, "c", trove="false")])
    cloud.config = enabling("AggregateImagePropertiesIsolation")
    found = cloud.found()
    inwards = found["AggregateImagePropertiesIsolation, trove: strangers"]
    assert inwards.who == (Group(("small",), (NOTHING, "plain"), (ANY_OTHER_PROJECT,)),)
    assert inwards.hosts == ("c", "d")
    outwards = found["AggregateImagePropertiesIsolation, trove: strays"]
    assert outwards.who == (Group(("small",), ("tagged",), (ANY_OTHER_PROJECT,)),)
    assert outwards.hosts == ("a", "b")
    repaired = Cloud([pool(1, "d", "image.trove=true", trove="true")], config=cloud.config)
    assert [each.severity for each in repaired.audit().findings] == [NOTE]


@pytest.mark.parametrize(
    ("config", "kinds"),
    [
        (enabling("AggregateMultiTenancyIsolation"), {"filter_tenant_id, p: strays"}),
        (SchedulerConfig(limit_tenants_to_placement_aggregate=True), {"filter_tenant_id, p: strangers"}),
        (
            SchedulerConfig(
                limit_tenants_to_placement_aggregate=True, enabled_filters=("AggregateMultiTenancyIsolation",)
            ),
            set(),
        ),
        (SchedulerConfig(), {"no effect"}),
    ],
)
def test_each_half_of_tenant_isolation_leaks_the_other_way(config: SchedulerConfig, kinds: set[str]) -> None:
    found = Cloud([pool(1, "d", filter_tenant_id3="p")], config=config).found()
    assert set(found) == kinds
    assert {each.severity for each in found.values()} <= {LEAK}
    repaired = Cloud([pool(1, "d", "project=p", filter_tenant_id3="p")], config=config)
    assert repaired.audit().findings == ()


def test_legacy_mechanisms_on_aggregates_without_hosts_let_nobody_in() -> None:
    config = enabling(EXTRA_SPECS, "AggregateImagePropertiesIsolation", "AggregateMultiTenancyIsolation")
    nobody = pool(1, "", CPU="Trove", trove="true", filter_tenant_id="p")
    assert Cloud([nobody], config=config).audit().findings == ()


def test_images_that_isolated_hosts_tell_apart_are_tried_apart() -> None:
    config = SchedulerConfig(
        enabled_filters=("IsolatedHostsFilter",), isolated_images=(PLAIN.id,), isolated_hosts=("a", "d")
    )
    report = Cloud([pool(1, "d", "flavor=small")], config=config).audit()
    assert report.pools[0].may_enter == (Group(("small",), ("plain",), (ANY_OTHER_PROJECT,)),)


SSD = OfferedFlavor(flavor({"ssd": "true"}, name="fast", flavor_id="8"))
X = OfferedFlavor(flavor({"trait:CUSTOM_X": "required"}, name="x", flavor_id="7"))
BIG = OfferedFlavor(flavor(name="big", flavor_id="6"))
TYPES = "AggregateTypeAffinityFilter"
IMAGES = "AggregateImagePropertiesIsolation"
ISOLATED = "IsolatedHostsFilter"


@dataclass(frozen=True)
class Unheeded:
    """A means of isolation, set up and switched off: its keys on an aggregate, and the rule that does its work."""

    metadata: dict[str, str]
    rule: str
    switch: str
    asking: OfferedFlavor = SSD
    config: SchedulerConfig = field(default_factory=SchedulerConfig)

    def cloud(self, *rules: str) -> Cloud:
        offered = [OfferedFlavor(SMALL), BIG, self.asking]
        return Cloud([pool(1, "d", *rules, **self.metadata)], offered, config=self.config)


UNHEEDED = [
    Unheeded({"CPU": "Trove"}, "spec.aggregate_instance_extra_specs:CPU=Trove", EXTRA_SPECS, TROVE),
    Unheeded({"ssd": "true"}, "spec.ssd=true", EXTRA_SPECS, SSD),
    Unheeded({"trove": "true"}, "image.trove=true", IMAGES),
    Unheeded({"trove": "True"}, "image.trove=True", IMAGES),
    Unheeded({"filter_tenant_id": "p"}, "project=p", "AggregateMultiTenancyIsolation"),
    Unheeded({"instance_type": "small"}, "flavor=small", TYPES),
    Unheeded({"trait:CUSTOM_X": "required"}, "trait=CUSTOM_X", "enable_isolated_aggregate_filtering", X),
    Unheeded(
        {},
        "image.trove",
        ISOLATED,
        config=SchedulerConfig(isolated_images=(TAGGED.id,), isolated_hosts=("d",)),
    ),
]


@pytest.mark.parametrize("means", UNHEEDED, ids=lambda means: f"{means.switch} {means.metadata}")
def test_a_means_that_is_switched_off_is_no_isolation(means: Unheeded) -> None:
    (finding,) = means.cloud().audit().findings
    assert (finding.kind, finding.severity, finding.hosts) == ("no effect", LEAK, ("d",))
    assert means.switch in finding.what
    assert means.switch in finding.remedy


@pytest.mark.parametrize(
    "means",
    [each for each in UNHEEDED if each.metadata.get("trove") != "True"],
    ids=lambda means: f"{means.switch} {means.metadata}",
)
def test_a_means_that_is_switched_off_is_not_missed_where_a_rule_does_its_work(means: Unheeded) -> None:
    assert means.cloud(means.rule).audit().is_clean


@pytest.mark.parametrize("means", UNHEEDED, ids=lambda means: f"{means.switch} {means.metadata}")
def test_a_rule_about_something_else_does_not_hide_a_means_that_is_switched_off(means: Unheeded) -> None:
    (finding,) = means.cloud("flavor=big").audit().findings
    assert finding.kind == "no effect"
    assert means.switch in finding.what


@pytest.mark.parametrize(
    "metadata",
    [
        {"availability_zone": "z"},
        {"cpu_allocation_ratio": "4.0"},
        {"ram_weight_multiplier": "2.0"},
        {"max_io_ops_per_host": "8"},
        {"max_instances_per_host": "50"},
        {"description": "rack 7"},
        {"owner": "us"},
        {"trait:CUSTOM_X": "preferred"},
    ],
)
def test_keys_that_are_no_isolation_are_none(metadata: dict[str, str]) -> None:
    written = dict.fromkeys([*metadata, "os_type"], "something") | metadata
    del written["owner" if "owner" in metadata else "os_type"]  # no image has the owner of an aggregate
    images = [Image("3", "with everything", properties=written)]
    assert Cloud([pool(1, "d", **metadata)], [OfferedFlavor(SMALL), X], images).audit().findings == ()


def test_an_extra_spec_without_scope_that_no_aggregate_knows_is_a_capability() -> None:
    assert Cloud([pool(1, "d", other="true")], [OfferedFlavor(SMALL), SSD]).audit().findings == ()


def test_flavors_leave_the_hosts_that_list_them() -> None:
    cloud = Cloud([pool(1, "c", instance_type="small, big"), pool(2, "d", instance_type="big")])
    cloud.offered, cloud.config = [OfferedFlavor(SMALL), BIG, SSD], enabling(TYPES)
    (finding,) = cloud.audit().findings
    assert (finding.kind, finding.severity) == (f"{TYPES}, instance_type: strays", LEAK)
    assert finding.hosts == ("a", "b")
    assert [each.flavors for each in finding.who] == [("big", "small")]
    everywhere = Cloud([pool(1, "abcd", instance_type="small")], config=cloud.config)
    assert everywhere.audit().is_clean


@pytest.mark.parametrize("restrict", [True, False])
def test_anybody_enters_isolated_hosts_that_are_not_restricted(restrict: bool) -> None:
    config = SchedulerConfig(
        enabled_filters=(ISOLATED,),
        isolated_images=(TAGGED.id,),
        isolated_hosts=("d", "gone"),
        restrict_isolated_hosts_to_isolated_images=restrict,
    )
    found = Cloud([], config=config).found()
    assert set(found) == (set() if restrict else {f"{ISOLATED}, isolated_hosts: strangers"})
    for finding in found.values():
        assert (finding.severity, finding.hosts) == (LEAK, ("d",))
        assert finding.who == (Group(("small",), (NOTHING, "plain"), (ANY_OTHER_PROJECT,)),)
        assert "restrict_isolated_hosts_to_isolated_images" in finding.remedy


@pytest.mark.parametrize(("having", "outside"), [("d", ()), ("bd", ("b",))])
def test_servers_leave_a_reserved_aggregate_for_other_hosts_with_the_trait(
    having: str, outside: tuple[str, ...]
) -> None:
    reserved = pool(1, "d", **{"trait:CUSTOM_X": "required"})
    records = [host(name, traits=frozenset({"CUSTOM_X"} if name in having else ())) for name in "abcd"]
    config = SchedulerConfig(enabled_filters=(), enable_isolated_aggregate_filtering=True)
    report = audit(table(*records, aggregates=(reserved,)), [OfferedFlavor(SMALL), X], [PLAIN], [], config)
    assert [(each.kind, each.hosts) for each in report.findings] == [
        ("isolate_aggregates, trait:CUSTOM_X: strays", outside) for _ in outside
    ]


def test_reserved_aggregates_are_for_servers_that_require_all_their_traits() -> None:
    both = pool(1, "d", **{"trait:CUSTOM_X": "required", "trait:CUSTOM_Y": "required"})
    one = pool(2, "c", **{"trait:CUSTOM_X": "required"})
    records = [host(name, traits=frozenset({"CUSTOM_X"} if name in "cd" else ())) for name in "abcd"]
    config = SchedulerConfig(enabled_filters=(), enable_isolated_aggregate_filtering=True)
    assert audit(table(*records, aggregates=(both, one)), [OfferedFlavor(SMALL), X], [PLAIN], [], config).is_clean


def test_what_is_switched_off_is_told_once_a_means_and_names_what_it_is_set_on() -> None:
    named = [pool(number, hosts, filter_tenant_id=project) for number, hosts, project in ((1, "a", "p"), (2, "b", "q"))]
    kept = pool(3, "c", "project=r", filter_tenant_id="r")
    (finding,) = Cloud([*named, kept]).audit().findings
    assert (finding.aggregates, finding.hosts) == (("aggregate1", "aggregate2"), ("a", "b"))
    assert "aggregate1, aggregate2" in finding.what


def test_isolated_images_without_a_host_for_them_may_land_anywhere_while_their_filter_is_off() -> None:
    config = SchedulerConfig(isolated_images=(TAGGED.id,))
    finding = Cloud([], config=config).found()["no effect"]
    assert "isolated_images" in finding.what
    assert Cloud([], images=(PLAIN,), config=config).audit().is_clean


def test_an_extra_spec_that_no_aggregate_answers_is_found_while_its_filter_is_off() -> None:
    finding = Cloud([], [OfferedFlavor(SMALL), TROVE]).found()["no effect"]
    assert (finding.aggregates, finding.hosts) == ((), ())
    assert finding.what.endswith(": trove.")


def test_a_host_that_two_projects_share_is_meant_for_both() -> None:
    rules = "project=p", "project=q"
    shared = [pool(1, "d", *rules, filter_tenant_id="p"), pool(2, "d", *rules, filter_tenant_id="q")]
    assert Cloud(shared).audit().findings == ()
    assert "no effect" in Cloud([*shared, pool(3, "c", filter_tenant_id="q")]).found()
