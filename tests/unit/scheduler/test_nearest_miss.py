# SPDX-License-Identifier: Apache-2.0
from dataclasses import replace
from typing import Any

import pytest
from tests.unit.scheduler.small_cloud import aggregate, flavor, host, request, table

from kilonova.cli.rules import build_engine
from kilonova.model.host import Capabilities
from kilonova.model.provider import Inventory
from kilonova.model.request_spec import RequestSpec
from kilonova.model.server_group import GroupView
from kilonova.scheduler.host_table import HostTable, build_host_table
from kilonova.scheduler.nearest_miss import NearestMiss, nearest_misses
from kilonova.scheduler.request_changes import with_amount
from kilonova.scheduler.resources import resource_query
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
    ("ask for no CUSTOM_GPU instead of 2", table(), request({"resources:CUSTOM_GPU": "2"})),
    ("enable node1", table(host(disabled=True, traits=frozenset({"COMPUTE_STATUS_DISABLED"}))), request()),
    ("take back that node1 is forced down", table(host(forced_down=True)), request()),
    ("have node1 send heartbeats again", table(taken_at=500.0), request()),
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
    ("leave the anti-affinity group g out", table(),
     request(group=GroupView("g", "anti-affinity", 1, {"node1": 1}), hints={"group": ("g",)})),
    ("do not exclude node1", table(), request(ignore_hosts=frozenset({"node1"}))),
    ("do not ask for the host elsewhere", table(), request(requested_host="elsewhere")),
    ("do not force the host elsewhere", table(), request(force_host="elsewhere")),
    ("move 3 instances off node1", table(host(num_instances=52)), request()),
    ("let 1 io-heavy operation on node1 end", table(host(num_io_ops=8)), request()),
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


@pytest.mark.parametrize(
    ("root", "ephemeral", "swap", "expected"),
    [(30, 3, 1024, (16, 3, 1024)), (2, 30, 1024, (0, 19, 1024)), (0, 0, 30 * 1024, (0, 0, 20 * 1024))],
)
def test_disk_is_taken_from_root_then_ephemeral_then_swap(
    root: int, ephemeral: int, swap: int, expected: tuple[int, int, int]
) -> None:
    found = with_amount(flavor(root_gib=root, ephemeral_gib=ephemeral, swap_mib=swap), "DISK_GB", 20)
    assert (found.root_gib, found.ephemeral_gib, found.swap_mib) == expected
    assert resource_query(found).resources["DISK_GB"] == 20


def test_an_amount_in_extra_specs_is_changed_there() -> None:
    given = flavor({"resources:CUSTOM_GPU": "2", "resources1:CUSTOM_GPU": "2"})
    assert resource_query(with_amount(given, "CUSTOM_GPU", 3)).resources["CUSTOM_GPU"] == 3
    assert "CUSTOM_GPU" not in resource_query(with_amount(given, "CUSTOM_GPU", 0)).resources
    assert replace(with_amount(given, "CUSTOM_GPU", 3), extra_specs={}) == flavor()
