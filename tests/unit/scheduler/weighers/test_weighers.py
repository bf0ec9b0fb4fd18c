# SPDX-License-Identifier: Apache-2.0
from typing import Any

import numpy as np
import pytest
from tests.unit.scheduler.small_cloud import aggregate, host, request, table

from kilonova.model.host import Capabilities
from kilonova.model.server_group import GroupView
from kilonova.scheduler import weighers
from kilonova.scheduler.host_table import ALL_ROWS

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
    }
    fixed: dict[str, Any] = {name: cls.minimum for name, cls in weighers.WEIGHERS.items() if cls.minimum is not None}
    assert fixed == {"RAMWeigher": 0.0, "CPUWeigher": 0.0, "DiskWeigher": 0.0, "IoOpsWeigher": 0.0}
    assert weighers.all_weighers() == list(weighers.WEIGHERS.values())


def test_the_nova_style_base_has_a_multiplier_and_no_opinion() -> None:
    assert weighers.BaseHostWeigher().weight_multiplier(None) == 1.0
    with pytest.raises(NotImplementedError):
        weighers.BaseHostWeigher()._weigh_object(None, None)
