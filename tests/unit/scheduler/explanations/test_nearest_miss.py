# SPDX-License-Identifier: Apache-2.0
from dataclasses import replace
from typing import Any

import pytest
from tests.unit.scheduler.small_cloud import INVENTORIES, aggregate, flavor, host, request, table

from kilonova.cli.wiring.rules import build_engine
from kilonova.model.host import Capabilities
from kilonova.model.provider import Inventory
from kilonova.model.request_spec import RequestSpec
from kilonova.model.server_group import GroupView
from kilonova.scheduler.explanations.nearest_miss import NearestMiss, nearest_misses
from kilonova.scheduler.explanations.request_changes import with_amount
from kilonova.scheduler.host_records import build_host_table
from kilonova.scheduler.host_table import HostTable
from kilonova.scheduler.settings import SchedulerConfig
from support.strict_filters import STRICT_FILTERS

ENGINE = build_engine(SchedulerConfig(enabled_filters=STRICT_FILTERS, enable_isolated_aggregate_filtering=True))
SSD = {"aggregate_instance_extra_specs:ssd": "true"}


def nearest(hosts: HostTable, spec: RequestSpec, **options: Any) -> tuple[NearestMiss, ...]:
    return nearest_misses(hosts, spec, ENGINE, **options)


def texts(misses: tuple[NearestMiss, ...]) -> list[tuple[str, ...]]:
    return [tuple(change.text for change in miss.changes) for miss in misses]


CASES: list[tuple[str, HostTable, RequestSpec]] = [
    ("ask for 32 VCPU instead of 40", table(), request(flavor=flavor(vcpus=40))),
    (
        "free 8 VCPU on node1",
        table(host(inventories=(Inventory("VCPU", 40), *host().inventories[1:]), used={"VCPU": 8})),
        request(flavor=flavor(vcpus=40)),
    ),
    ("ask for 15 DISK_GB instead of 17", table(host(inventories=(
        *host().inventories[:2], Inventory("DISK_GB", 200, max_unit=15, step_size=5)))),
     request(flavor=flavor(root_gib=17))),
    ("ask for 10 DISK_GB instead of 9", table(host(inventories=(
        *host().inventories[:2], Inventory("DISK_GB", 200, step_size=5)))), request(flavor=flavor(root_gib=9))),
    ("ask for no DISK_GB instead of 1", table(host(inventories=(
        *host().inventories[:2], Inventory("DISK_GB", 200, min_unit=5)))), request()),
    ("ask for no CUSTOM_GPU instead of 2", table(), request({"resources:CUSTOM_GPU": "2"})),
    ("enable node1", table(host(disabled=True, traits=frozenset({"COMPUTE_STATUS_DISABLED"}))), request()),
    ("unset forced_down of node1", table(host(forced_down=True)), request()),
    ("make node1 send heartbeats again", table(taken_at=500.0), request()),
    ("give node1 the trait CUSTOM_A", table(), request({"trait:CUSTOM_A": "required"})),
    ("take the trait CUSTOM_A from node1", table(host(traits=frozenset({"CUSTOM_A"}))),
     request({"trait1:CUSTOM_A": "forbidden"})),
    ("do without the trait CUSTOM_A", table(), request(properties={"trait:CUSTOM_A": "required"})),
    ("ask for zone b instead of a", table(aggregates=(
        aggregate(0, ("node1",), availability_zone="b"), aggregate(1, (), availability_zone="a"))),
     request(availability_zone="a")),
    ("ask for no zone instead of a", table(aggregates=(aggregate(1, (), availability_zone="a"),)),
     request(availability_zone="a")),
    ("add node1 to the aggregate aggregate0", table(aggregates=(aggregate(0, (), ssd="true"),)), request(SSD)),
    ("set ssd=true on the aggregate aggregate0", table(aggregates=(aggregate(0, ("node1",)),)), request(SSD)),
    ("set ssd=false,true on the aggregate aggregate0",
     table(aggregates=(aggregate(0, ("node1",), ssd="false"),)), request(SSD)),
    ("remove node1 from the aggregate aggregate0",
     table(aggregates=(aggregate(0, ("node1",), filter_tenant_id="q"),)), request(project_id="p")),
    ("set filter_tenant_id=q,p on the aggregate aggregate0",
     table(aggregates=(aggregate(0, ("node1",), filter_tenant_id="q"),)), request(project_id="p")),
    ("set instance_type=m9,m1 on the aggregate aggregate0",
     table(aggregates=(aggregate(0, ("node1",), instance_type="m9"),)), request()),
    ("set os_distro=sles,ubuntu on the aggregate aggregate0",
     table(aggregates=(aggregate(0, ("node1",), os_distro="sles"),)), request(properties={"os_distro": "ubuntu"})),
    ("drop the extra spec aggregate_instance_extra_specs:ssd=true", table(), request(SSD)),
    ("ask for capabilities:gpu=a instead of b", table(host(capabilities=Capabilities(extra={"gpu": "a"}))),
     request({"capabilities:gpu": "b"})),
    ("use an image with hw_architecture=x86_64 instead of aarch64",
     table(host(capabilities=Capabilities(supported_instances=(("x86_64", "kvm", "hvm"),)))),
     request(properties={"hw_architecture": "aarch64"})),
    ("use an image without hw_architecture=aarch64", table(), request(properties={"hw_architecture": "aarch64"})),
    ("remove node1 from the aggregate aggregate0",
     table(aggregates=(aggregate(0, ("node1",), **{"kilonova:only": "image.trove"}),)), request()),
    ("add node1 to the aggregate aggregate0",
     table(aggregates=(aggregate(0, (), **{"kilonova:only": "project=p"}),)), request(project_id="p")),
    ("drop the hint different_host", table(host(instances=("i1",))), request(hints={"different_host": ("i1",)})),
    ("drop the anti-affinity group g", table(),
     request(group=GroupView("g", "anti-affinity", 1, {"node1": 1}), hints={"group": ("g",)})),
    ("do not exclude node1", table(), request(ignore_hosts=frozenset({"node1"}))),
    ("do not ask for the host elsewhere", table(), request(requested_host="elsewhere")),
    ("do not force the host elsewhere", table(), request(force_host="elsewhere")),
    ("move 3 servers off node1", table(host(num_instances=52)), request()),
    ("wait until 1 io-heavy operation on node1 ended", table(host(num_io_ops=8)), request()),
]  # fmt: skip


@pytest.mark.parametrize(("expected", "hosts", "spec"), CASES, ids=[case[0] for case in CASES])
def test_what_alone_is_in_the_way_is_what_is_proposed(expected: str, hosts: HostTable, spec: RequestSpec) -> None:
    assert (expected,) in texts(nearest(hosts, spec, limit=10))


def test_a_smaller_change_goes_first() -> None:
    hosts = table(host("node1", used={"VCPU": 20}), host("node2", used={"VCPU": 2}), host("node3", used={"VCPU": 11}))
    best, *_ = nearest(hosts, request(flavor=flavor(vcpus=32)))
    assert best.changes[0].kind in {"resource", "free"}
    assert (best.host, best.node, best.size, best.fitting) == ("node2", "node2", 2 / 32, 1)
    assert best.hindrances == (("Placement: VCPU", "cannot give 32 VCPU"),)


def with_filter(name: str, hosts: HostTable, spec: RequestSpec) -> tuple[NearestMiss, ...]:
    return nearest_misses(hosts, spec, build_engine(SchedulerConfig(enabled_filters=(name,))), limit=10)


OVERCOMMIT: list[tuple[str, str, str, int]] = [
    ("AggregateCoreFilter", "cpu_allocation_ratio", "VCPU", 8),
    ("AggregateRamFilter", "ram_allocation_ratio", "MEMORY_MB", 1_024),
    ("AggregateDiskFilter", "disk_allocation_ratio", "DISK_GB", 100),
]


@pytest.mark.parametrize("asked_of_all", [0.625, 1.5], ids=["the filter alone refuses", "Placement refuses as well"])
@pytest.mark.parametrize(("name", "ratio", "resource", "total"), OVERCOMMIT)
def test_an_amount_that_a_filter_refuses_is_lowered_to_what_it_accepts(
    name: str, ratio: str, resource: str, total: int, asked_of_all: float
) -> None:
    inventories = [Inventory(each, size) for _, _, each, size in OVERCOMMIT]
    hosts = table(host(inventories=tuple(inventories)), aggregates=(aggregate(0, ("node1",), **{ratio: "0.5"}),))
    asked = int(total * asked_of_all)
    spec = request(flavor=with_amount(flavor(), resource, asked))
    best, *_ = with_filter(name, hosts, spec)
    assert [change.text for change in best.changes] == [f"ask for {total // 2} {resource} instead of {asked}"]


def test_an_amount_that_a_filter_refuses_keeps_to_the_steps_of_the_host() -> None:
    inventories = (*host().inventories[:1], Inventory("MEMORY_MB", 1_000, step_size=32), host().inventories[2])
    hosts = table(
        host("node1", inventories=inventories),
        host("node2", inventories=(*inventories[:1], Inventory("MEMORY_MB", 980, step_size=10), inventories[2])),
        aggregates=(aggregate(0, ("node1", "node2"), ram_allocation_ratio="0.5"),),
    )
    best, *_ = with_filter("AggregateRamFilter", hosts, request(flavor=flavor(memory_mib=640)))
    assert [change.text for change in best.changes] == ["ask for 490 MEMORY_MB instead of 640"]
    assert best.host == "node2"


def test_what_a_filter_counts_as_used_is_freed_as_far_as_needed() -> None:
    hosts = table(host(used={"VCPU": 7}), aggregates=(aggregate(0, ("node1",), cpu_allocation_ratio="1"),))
    found = texts(with_filter("AggregateCoreFilter", hosts, request(flavor=flavor(vcpus=3))))
    assert ("free 2 VCPU on node1",) in found
    found = texts(nearest(hosts, request({"capabilities:vcpus_used": "<= 5"})))
    assert found[0] == ("free 2 VCPU on node1",)


def test_a_combination_names_the_amount_that_is_enough_for_a_filter() -> None:
    engine = build_engine(SchedulerConfig(enabled_filters=("AggregateRamFilter", "ComputeFilter")))
    inventories = (host().inventories[0], Inventory("MEMORY_MB", 1_000), host().inventories[2])
    hosts = table(
        host(inventories=inventories, forced_down=True),
        aggregates=(aggregate(0, ("node1",), ram_allocation_ratio="0.5"),),
    )
    best, *_ = nearest_misses(hosts, request(flavor=flavor(memory_mib=1_200)), engine)
    assert texts((best,)) == [
        ("ask for 500 MEMORY_MB instead of 1200", "unset forced_down of node1"),
    ]


PINNED = {"hw:cpu_policy": "dedicated"}


@pytest.mark.parametrize(
    ("cpus", "specs", "expected"),
    [
        (Inventory("PCPU", 16), PINNED, "ask for 16 VCPU instead of 20"),
        (Inventory("VCPU", 16), PINNED, "ask for 16 VCPU instead of 20"),
        (Inventory("PCPU", 16), {**PINNED, "hw:emulator_threads_policy": "isolate"}, "ask for 15 VCPU instead of 20"),
    ],
    ids=["PCPU", "VCPU in their place", "one more for the emulator"],
)
def test_pinned_cpus_are_asked_for_by_the_cpus_of_the_flavor(
    cpus: Inventory, specs: dict[str, str], expected: str
) -> None:
    hosts = table(host(inventories=(cpus, *host().inventories[1:])))
    best, *_ = nearest(hosts, request(flavor=flavor(specs, vcpus=20)))
    assert texts((best,)) == [(expected,)]


def test_an_amount_may_open_the_way_to_cpus_in_place_of_pinned_ones() -> None:
    hosts = table(host(inventories=(*host().inventories[:2], Inventory("DISK_GB", 200, step_size=5))))
    best, *_ = nearest(hosts, request(flavor=flavor(PINNED, root_gib=8)))
    assert texts((best,)) == [("ask for 10 DISK_GB instead of 8",)]


def test_with_cpus_in_place_of_pinned_ones_a_filter_is_given_what_the_steps_allow() -> None:
    hosts = table(
        host(inventories=(*host().inventories[:2], Inventory("DISK_GB", 50, step_size=5))),
        aggregates=(aggregate(0, ("node1",), disk_allocation_ratio="0.25"),),
    )
    best, *_ = with_filter("AggregateDiskFilter", hosts, request(flavor=flavor(PINNED, root_gib=38)))
    assert texts((best,)) == [("ask for 10 DISK_GB instead of 38",)]


def test_an_amount_that_another_rule_then_refuses_does_not_hide_the_next_one() -> None:
    inventories = tuple(replace(each, min_unit=5) if each.resource_class == "VCPU" else each for each in INVENTORIES)
    roomier = tuple(replace(each, min_unit=6) if each.resource_class == "VCPU" else each for each in INVENTORIES)
    hosts = table(
        host("node1", inventories=inventories),
        host("node2", inventories=roomier),
        aggregates=(aggregate(0, ("node1",), cpu_allocation_ratio="0.5"),),
    )
    found = texts(with_filter("AggregateCoreFilter", hosts, request(flavor=flavor(vcpus=4))))
    assert found == [("ask for 6 VCPU instead of 4",)]


@pytest.mark.parametrize("name", ["PCPU", "VCPU"])
def test_a_server_with_pinned_cpus_is_never_asked_to_do_without_any(name: str) -> None:
    hosts = table(host(inventories=(Inventory(name, 16), *host().inventories[1:]), used={name: 16}))
    found = texts(nearest(hosts, request(flavor=flavor(PINNED, vcpus=4))))
    assert found == [(f"free 4 {name} on node1",)]


def test_a_request_that_fits_misses_nothing() -> None:
    assert nearest(table(host("node1", disabled=True), host("node2")), request()) == ()


def test_a_cloud_without_hosts_has_no_nearest_miss() -> None:
    assert nearest(build_host_table(()), request()) == ()


def test_several_hindrances_are_all_named() -> None:
    hosts = table(host(forced_down=True, used={"VCPU": 31}))
    best, *_ = nearest(
        hosts, request({"trait:CUSTOM_A": "required"}, flavor=flavor({"trait:CUSTOM_A": "required"}, vcpus=2))
    )
    assert {change.kind for change in best.changes} == {"forced down", "trait of host", "resource"}
    assert [rule for rule, _ in best.hindrances] == ["Placement: CUSTOM_A", "Placement: VCPU", "ComputeFilter"]


def test_one_rule_that_has_two_reasons_needs_two_changes() -> None:
    best, *_ = nearest(table(host(forced_down=True), taken_at=500.0), request())
    assert {change.kind for change in best.changes} == {"forced down", "heartbeat"}


def test_only_the_hypervisor_in_question_is_changed() -> None:
    hosts = table(host("node1", node="a", used={"VCPU": 31}), host("node1", node="b", used={"VCPU": 30}))
    freed = [miss for miss in nearest(hosts, request(flavor=flavor(vcpus=3))) if miss.changes[0].kind == "free"]
    assert [(miss.node, miss.changes[0].new, miss.fitting) for miss in freed] == [("b", 1, 1)]


def test_a_large_cloud_is_looked_at_where_it_is_closest() -> None:
    records = [host(f"node{row}", used={"VCPU": 31 if row != 2500 else 30}) for row in range(3000)]
    best, *_ = nearest(table(*records), request(flavor=flavor(vcpus=3)))
    assert best.host == "node2500"


def test_in_a_large_cloud_without_dedicated_cpus_pinned_ones_are_looked_for_where_there_are_most() -> None:
    records = [host(f"node{row}", used={"VCPU": 31 if row != 2500 else 30}) for row in range(3000)]
    best, *_ = nearest(table(*records), request(flavor=flavor(PINNED, vcpus=3)))
    assert (best.host, best.size) == ("node2500", 1 / 3)
