# SPDX-License-Identifier: Apache-2.0
"""Vectors of AggregateImagePropertiesIsolation that were executed against Nova's class."""

from collections.abc import Mapping
from typing import Any

import pytest
from tests.unit.scheduler.small_cloud import one_host_in, request

from kilonova.scheduler.filters import AggregateImagePropertiesIsolation
from kilonova.scheduler.settings import SchedulerConfig


@pytest.mark.parametrize(
    ("properties", "aggregates", "expected"),
    [
        (None, [{"os_distro": "ubuntu"}], True),
        ({}, [{"os_distro": "ubuntu"}], True),
        ({"os_distro": "ubuntu"}, [{"os_distro": "ubuntu"}], True),
        ({"os_distro": "rhel"}, [{"os_distro": "ubuntu"}], False),
        ({"os_distro": "rhel"}, [{"os_distro": "ubuntu,rhel"}], True),
        ({"os_distro": "rhel"}, [{"os_distro": "ubuntu"}, {"os_distro": "rhel"}], True),
        ({"os_distro": "rhel"}, [], True),
        ({"hw_cpu_cores": 4}, [{"hw_cpu_cores": "4"}], True),
        ({"f": False}, [{"f": "True"}], True),
        ({"f": True}, [{"f": "False"}], False),
        ({"trove": "true"}, [{"trove": "false"}], False),
        ({"architecture": "x86_64"}, [{"hw_architecture": "aarch64"}], False),
    ],
)
def test_image_properties_must_not_contradict_the_aggregates(
    properties: Mapping[str, Any] | None, aggregates: list[Mapping[str, str]], expected: bool
) -> None:
    rule = AggregateImagePropertiesIsolation()
    assert rule.passes(one_host_in(*aggregates), request(properties=properties)).tolist() == [expected]


def test_a_namespace_limits_the_metadata_keys_and_stays_part_of_the_property_name() -> None:
    rule = AggregateImagePropertiesIsolation.configured(
        SchedulerConfig(
            aggregate_image_properties_isolation_namespace="iso",
            aggregate_image_properties_isolation_separator="_",
        )
    )
    hosts = one_host_in({"os_distro": "windows", "iso_tier": "gold"})
    assert rule.passes(hosts, request(properties={"os_distro": "linux"})).tolist() == [True]
    assert rule.passes(hosts, request(properties={"iso_tier": "lead"})).tolist() == [False]
    assert rule.passes(hosts, request(properties={"tier": "lead"})).tolist() == [True]
