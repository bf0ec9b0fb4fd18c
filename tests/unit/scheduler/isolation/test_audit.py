# SPDX-License-Identifier: Apache-2.0
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest
from tests.unit.scheduler.small_cloud import aggregate, flavor, host, table

from kilonova.model.aggregate import Aggregate
from kilonova.model.image import Image
from kilonova.model.placed_server import PlacedServer
from kilonova.scheduler.isolation.audit import FAULT, LEAK, NOTE, Finding, Report, audit
from kilonova.scheduler.isolation.universe import ANY_OTHER_PROJECT, UNTAGGED, Group, OfferedFlavor
from kilonova.scheduler.isolation_rules import PREFIX
from kilonova.scheduler.settings import SchedulerConfig

SMALL = flavor(name="small")
TAGGED = Image("1", "tagged", properties={"trove": "true"})
PLAIN = Image("2", "plain")
NOTHING = UNTAGGED.name


@dataclass
class Cloud:
    """Hosts a to d, what the tests add, and rules as they are by default."""

    aggregates: Sequence[Aggregate]
    offered: Sequence[OfferedFlavor] = (OfferedFlavor(SMALL),)
    images: Sequence[Image] = (TAGGED, PLAIN)
    servers: Sequence[PlacedServer] = ()
    config: SchedulerConfig = field(default_factory=SchedulerConfig)
    hosts: str = "abcd"

    def audit(self) -> Report:
        hosts = table(*(host(name) for name in self.hosts), aggregates=tuple(self.aggregates))
        return audit(hosts, self.offered, self.images, self.servers, self.config)

    def found(self) -> dict[str, Finding]:
        return {finding.kind: finding for finding in self.audit().findings}


def pool(number: int, hosts: str, *rules: str, **metadata: str) -> Aggregate:
    keys = {f"{PREFIX}.{index}": rule for index, rule in enumerate(rules)}
    return aggregate(number, tuple(hosts), **keys, **metadata)


def server(name: str, where: str, image: Image | None = PLAIN, project: str = "p") -> PlacedServer:
    return PlacedServer(f"uuid-{name}", name, where, project, SMALL, image)


def enabling(*filters: str) -> SchedulerConfig:
    return SchedulerConfig(enabled_filters=filters)


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
    assert [(each.kind, each.severity) for each in report.findings] == [("anybody may tag", NOTE)]
    assert report.is_clean


def test_an_untagged_upload_is_always_tried() -> None:
    report = Cloud([pool(1, "a", "flavor=small")], images=()).audit()
    assert report.pools[0].may_enter == (Group(("small",), (NOTHING,), (ANY_OTHER_PROJECT,)),)


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


def test_projects_that_rules_name_are_told_apart_and_private_flavors_stay_private() -> None:
    offered = [
        OfferedFlavor(SMALL),
        OfferedFlavor(flavor(name="own", flavor_id="2"), frozenset({"p", "x"})),
        OfferedFlavor(flavor(name="theirs", flavor_id="3"), frozenset({"q"})),
    ]
    cloud = Cloud([pool(1, "c", "project=p"), pool(2, "d", "project=q")], offered=offered, images=())
    by_rule = {each.rule: each for each in cloud.audit().pools}
    assert by_rule["project=p"].may_enter == (Group(("own", "small"), (NOTHING,), ("p",)),)
    assert by_rule["project=q"].may_enter == (Group(("small", "theirs"), (NOTHING,), ("q",)),)
    assert cloud.audit().projects == (ANY_OTHER_PROJECT, "p", "q")


def test_what_is_alike_for_every_rule_is_tried_once() -> None:
    offered = [OfferedFlavor(flavor({"hw:x": str(n)}, name=f"f{n}", flavor_id=str(n))) for n in range(50)]
    images = [Image(str(n), f"i{n}", properties={"os": str(n)}) for n in range(300)]
    report = Cloud([pool(1, "d", "image.trove")], offered=offered, images=[*images, TAGGED]).audit()
    assert (report.flavors, report.images, report.combinations) == (50, 301, 2)


def test_images_of_one_name_are_told_apart() -> None:
    images = [Image("1", "same", properties={"trove": ""}), Image("2", "same")]
    report = Cloud([pool(1, "d", "image.trove")], images=images).audit()
    assert report.pools[0].may_enter[0].images == ("same (1)",)


EXTRA_SPECS = "AggregateInstanceExtraSpecsFilter"
TROVE = OfferedFlavor(flavor({"aggregate_instance_extra_specs:CPU": "Trove"}, name="trove", flavor_id="9"))


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
    mended = Cloud([pool(1, "d", "image.trove=true", trove="true")], config=cloud.config)
    assert [each.severity for each in mended.audit().findings] == [NOTE]


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
    mended = Cloud([pool(1, "d", "project=p", filter_tenant_id3="p")], config=config)
    assert mended.audit().findings == ()


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
