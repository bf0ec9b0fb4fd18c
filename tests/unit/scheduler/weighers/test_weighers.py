# SPDX-License-Identifier: Apache-2.0
from typing import Any

import numpy as np
import pytest
from tests.unit.scheduler.small_cloud import aggregate, host, request, table

from kilonova.errors import RuleFailed
from kilonova.model.host import Capabilities
from kilonova.model.server_group import GroupView
from kilonova.scheduler import weighers
from kilonova.scheduler.engine.ranking import shares
from kilonova.scheduler.guests import guest_kind
from kilonova.scheduler.host_table import ALL_ROWS
from kilonova.scheduler.settings import SchedulerConfig

CLOUD = table(
    host(
        "a",
        used={"VCPU": 4, "MEMORY_MB": 1024, "DISK_GB": 10},
        num_instances=1,
        num_io_ops=2,
        failed_builds=3,
        capabilities=Capabilities(hypervisor_version=6),
    ),
    host("b", used={"MEMORY_MB": 8192}, capabilities=Capabilities(hypervisor_version=7)),
)


@pytest.mark.parametrize(
    ("weigher", "expected"),
    [
        (weighers.RAMWeigher(), [6656, -512]),
        (weighers.CPUWeigher(), [28, 32]),
        (weighers.DiskWeigher(), [190, 200]),
        (weighers.IoOpsWeigher(), [2, 0]),
        (weighers.NumInstancesWeigher(), [1, 0]),
        (weighers.BuildFailureWeigher(), [3, 0]),
        (weighers.HypervisorVersionWeigher(), [6, 7]),
        (weighers.ServerGroupSoftAffinityWeigher(), None),
        (weighers.ServerGroupSoftAntiAffinityWeigher(), None),
    ],
)
def test_the_raw_rating(weigher: weighers.ColumnWeigher, expected: list[float] | None) -> None:
    for rows, pick in ((ALL_ROWS, [0, 1]), (np.array([1]), [1])):
        raw = weigher.weigh(CLOUD, request(), rows)
        if expected is None:
            assert raw is None
        else:
            assert raw is not None
            assert raw.tolist() == [expected[index] for index in pick]


def test_without_such_inventory_there_is_nothing_to_rate() -> None:
    bare = table(host(inventories=()))
    assert weighers.CPUWeigher().weigh(bare, request(), ALL_ROWS) is None
    assert weighers.RAMWeigher().weigh(bare, request(), ALL_ROWS).tolist() == [0]


def test_hosts_of_one_version_are_all_the_same() -> None:
    assert weighers.HypervisorVersionWeigher().weigh(table(host("a"), host("b")), request(), ALL_ROWS) is None


def test_soft_groups_count_members() -> None:
    hosts = table(host("a"), host("b"), host("b", node="b2"))
    together = request(group=GroupView("g", "soft-affinity", hosts={"b": 2, "gone": 1}))
    apart = request(group=GroupView("g", "soft-anti-affinity", hosts={"b": 2}))
    affinity, anti = weighers.ServerGroupSoftAffinityWeigher(), weighers.ServerGroupSoftAntiAffinityWeigher()
    rated, pushed = affinity.weigh(hosts, together, ALL_ROWS), anti.weigh(hosts, apart, ALL_ROWS)
    assert rated is not None
    assert rated.tolist() == [0, 2, 2]
    assert pushed is not None
    assert pushed.tolist() == [0, -2, -2]
    assert affinity.weigh(hosts, apart, ALL_ROWS) is None
    assert anti.weigh(hosts, together, ALL_ROWS) is None


def test_aggregates_set_the_multiplier_and_the_smallest_counts() -> None:
    key = "ram_weight_multiplier"
    hosts = table(
        *(host(name) for name in "abcd"),
        aggregates=(
            aggregate(1, ("b", "c"), **{key: "2.5"}),
            aggregate(2, ("c",), **{key: "-1"}),
            aggregate(3, ("d",), **{key: "lots"}),
            aggregate(4, ("a",), other="1"),
        ),
    )
    weigher = weighers.RAMWeigher(multiplier=0.5)
    assert np.asarray(weigher.factors(hosts, ALL_ROWS)).tolist() == [0.5, 2.5, -1.0, 0.5]
    assert np.asarray(weigher.factors(hosts, np.array([2]))).tolist() == [-1.0]
    assert weighers.CPUWeigher(multiplier=3.0).factors(hosts, ALL_ROWS) == 3.0


@pytest.mark.parametrize("value", ["inf", "nan", ""])
def test_a_multiplier_must_be_a_finite_number(value: str) -> None:
    hosts = table(host(), aggregates=(aggregate(1, ("node1",), ram_weight_multiplier=value),))
    assert np.asarray(weighers.RAMWeigher(multiplier=0.5).factors(hosts, ALL_ROWS)).tolist() == [0.5]


def test_build_failures_count_against_the_host_wherever_the_multiplier_comes_from() -> None:
    hosts = table(host("a"), host("b"), aggregates=(aggregate(1, ("b",), build_failure_weight_multiplier="2"),))
    assert weighers.BuildFailureWeigher().factors(table(host()), ALL_ROWS) == -1000000.0
    assert np.asarray(weighers.BuildFailureWeigher(multiplier=3.0).factors(hosts, ALL_ROWS)).tolist() == [-3.0, -2.0]


def test_defaults_are_those_of_nova() -> None:
    defaults = {name: cls().multiplier for name, cls in weighers.WEIGHERS.items()}
    assert defaults == {
        "RAMWeigher": 1.0,
        "CPUWeigher": 1.0,
        "DiskWeigher": 1.0,
        "IoOpsWeigher": -1.0,
        "PCIWeigher": 1.0,
        "ServerGroupSoftAffinityWeigher": 1.0,
        "ServerGroupSoftAntiAffinityWeigher": 1.0,
        "BuildFailureWeigher": 1000000.0,
        "HypervisorVersionWeigher": 1.0,
        "NumInstancesWeigher": 0.0,
        "MetricsWeigher": 1.0,
        "CrossCellWeigher": 1000000.0,
        "ImagePropertiesWeigher": 0.0,
        "ImageCacheWeigher": 0.0,
    }
    fixed: dict[str, Any] = {name: cls.minimum for name, cls in weighers.WEIGHERS.items() if cls.minimum is not None}
    assert fixed == {"RAMWeigher": 0.0, "CPUWeigher": 0.0, "DiskWeigher": 0.0, "IoOpsWeigher": 0.0}
    assert weighers.all_weighers() == list(weighers.WEIGHERS.values())


def test_the_nova_style_base_has_a_multiplier_and_no_opinion() -> None:
    assert weighers.BaseHostWeigher().weight_multiplier(None) == 1.0
    with pytest.raises(NotImplementedError):
        weighers.BaseHostWeigher()._weigh_object(None, None)


MEASURED = table(
    host("a", metrics={"cpu": 0.5, "power": 10.0}),
    host("b", metrics={"cpu": 0.25}),
    host("c", metrics={"cpu": 1.0, "power": 20.0}),
    aggregates=(aggregate(1, ("b",), metrics_weight_multiplier="0"),),
)


def rated(weigher: weighers.ColumnWeigher, hosts: Any, spec: Any, rows: Any = ALL_ROWS) -> list[float] | None:
    raw = weigher.weigh(hosts, spec, rows)
    return None if raw is None else raw.tolist()


def metrics_weigher(*setting: str, **options: Any) -> weighers.MetricsWeigher:
    return weighers.MetricsWeigher.configured(SchedulerConfig(metrics_weight_setting=setting, **options))


def test_metrics_are_added_up_by_their_ratios() -> None:
    assert rated(metrics_weigher("cpu=2.0", "cpu=2.0"), MEASURED, request()) == [2.0, 1.0, 4.0]
    some = metrics_weigher("cpu=4.0", "power=-1.0")
    assert rated(some, MEASURED, request(), np.array([0, 2])) == [-8.0, -16.0]
    assert rated(metrics_weigher(), MEASURED, request()) is None


def test_a_missing_metric_fails_the_request_and_says_which() -> None:
    with pytest.raises(RuleFailed, match="metric power is required") as failure:
        shares([metrics_weigher("cpu=4.0", "power=0")], MEASURED, request(), ALL_ROWS, 3)
    assert failure.value.fields["host"] == "b"
    with pytest.raises(RuleFailed, match="metric disk is required") as failure:
        metrics_weigher("disk=1").weigh(MEASURED, request(), np.array([2]))
    assert failure.value.fields["host"] == "c"


@pytest.mark.parametrize(
    ("setting", "multiplier", "expected"),
    [
        ("power=1", 1.0, [10.0, 0.0, 20.0]),  # the multiplier of b's aggregate is 0
        ("disk=1", 1.0, [-5.0, 0.0, -5.0]),
        ("disk=0", 1.0, [0.0, 0.0, 0.0]),
        ("disk=1", 0.0, [0.0, 0.0, 0.0]),
    ],
)
def test_a_metric_that_is_not_required_costs_what_is_configured(
    setting: str, multiplier: float, expected: list[float]
) -> None:
    options = {"metrics_weight_of_unavailable": -5.0, "metrics_weight_multiplier": multiplier}
    weigher = metrics_weigher(setting, metrics_required=False, **options)
    assert rated(weigher, MEASURED, request()) == expected


def test_a_move_that_may_leave_the_cell_prefers_to_stay() -> None:
    hosts = table(host("a", cell_uuid="c1"), host("b", cell_uuid="c2"), host("c"))
    weigher = weighers.CrossCellWeigher()
    assert rated(weigher, hosts, request()) is None
    assert rated(weigher, hosts, request(source_cell="c1")) == [1.0, -1.0, -1.0]
    assert rated(weigher, hosts, request(source_cell="c2"), np.array([1])) == [1.0]
    assert rated(weigher, table(host("a"), host("b")), request(source_cell="c1")) is None, "there is one cell only"


def test_like_images_draw_together() -> None:
    ubuntu, suse = guest_kind("1", {"os_distro": "ubuntu", "arch": "x"}), guest_kind("1", {"os_distro": "suse"})
    hosts = table(host("a", guests=(ubuntu, ubuntu, suse)), host("b", guests=(suse,)), host("c"))
    asked = request(properties={"os_distro": "ubuntu", "arch": "x", "new": "1"})
    even = weighers.ImagePropertiesWeigher.configured(SchedulerConfig(image_props_weight_multiplier=2.0))
    assert rated(even, hosts, asked) == [4.0, 0.0, 0.0]
    assert rated(even, hosts, request(properties={"os_distro": "suse"}), np.array([1, 2])) == [1.0, 0.0]
    assert rated(even, hosts, request()) is None
    assert rated(even, hosts, request(properties={})) is None
    some = weighers.ImagePropertiesWeigher.configured(
        SchedulerConfig(image_props_weight_multiplier=-1.0, image_props_weight_setting=("os_distro=0.5", "bad"))
    )
    assert rated(some, hosts, asked) == [1.0, 0.0, 0.0]
    assert some.factors(hosts, ALL_ROWS) == -1.0


def test_no_aggregate_switches_the_weigher_of_images_on() -> None:
    hosts = table(host("a"), aggregates=(aggregate(1, ("a",), image_props_weight_multiplier="5"),))
    assert weighers.ImagePropertiesWeigher().factors(hosts, ALL_ROWS) == 0.0
    assert np.asarray(weighers.ImagePropertiesWeigher(multiplier=1.0).factors(hosts, ALL_ROWS)).tolist() == [5.0]


def test_a_weigher_without_an_option_of_its_own_keeps_its_multiplier() -> None:
    class Quiet(weighers.NumInstancesWeigher):
        option = "no_such_option"

    assert Quiet.configured(SchedulerConfig()).multiplier == weighers.NumInstancesWeigher().multiplier


def test_hosts_that_keep_the_image_come_first_where_that_is_wanted() -> None:
    asked = request(properties={})
    assert asked.image is not None
    kept = {f"image.{asked.image.id}": 1.0}
    hosts = table(host("a", metrics={"image.another": 1.0}), host("b", metrics=kept), host("c"))
    weigher = weighers.ImageCacheWeigher.configured(SchedulerConfig(image_cache_weight_multiplier=3.0))
    assert rated(weigher, hosts, asked) == [0.0, 1.0, 0.0]
    assert rated(weigher, hosts, asked, np.array([1, 2])) == [1.0, 0.0]
    assert rated(weigher, table(host("a"), host("b")), asked) == [0.0, 0.0]
    assert rated(weigher, hosts, request()) is None
    assert weigher.factors(hosts, ALL_ROWS) == 3.0
    set_by_aggregate = table(host("a"), aggregates=(aggregate(1, ("a",), image_cache_weight_multiplier="5"),))
    assert weighers.ImageCacheWeigher().factors(set_by_aggregate, ALL_ROWS) == 0.0
    assert np.asarray(weigher.factors(set_by_aggregate, ALL_ROWS)).tolist() == [5.0]
