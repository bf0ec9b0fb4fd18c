# SPDX-License-Identifier: Apache-2.0
"""Multipliers of all weighers, and the base class of weighers that are written for Nova."""

from typing import Any

import numpy as np
import pytest
from tests.unit.scheduler.small_cloud import aggregate, host, table

from kilonova.scheduler import weighers
from kilonova.scheduler.host_table import ALL_ROWS
from kilonova.scheduler.settings import SchedulerConfig


def test_aggregates_set_the_multiplier_and_the_smallest_applies() -> None:
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


def test_the_base_class_for_nova_has_a_multiplier_and_no_rating() -> None:
    assert weighers.BaseHostWeigher().weight_multiplier(None) == 1.0
    with pytest.raises(NotImplementedError):
        weighers.BaseHostWeigher()._weigh_object(None, None)


def test_a_weigher_without_an_option_of_its_own_keeps_its_multiplier() -> None:
    class Quiet(weighers.NumInstancesWeigher):
        option = "no_such_option"

    assert Quiet.configured(SchedulerConfig()).multiplier == weighers.NumInstancesWeigher().multiplier
