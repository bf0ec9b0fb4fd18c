# SPDX-License-Identifier: Apache-2.0
import pytest
from tests.unit.scheduler.request_filters.applied import required
from tests.unit.scheduler.small_cloud import request

from kilonova.scheduler.request_filters import AcceleratorsFilter


@pytest.mark.parametrize(("profile", "expected"), [("fpga", {"COMPUTE_ACCELERATORS"}), ("", set())])
def test_a_device_profile_requires_the_trait(profile: str, expected: set[str]) -> None:
    assert required(AcceleratorsFilter(), request({"accel:device_profile": profile})) == expected


def test_a_flavor_without_a_device_profile_requires_nothing() -> None:
    assert required(AcceleratorsFilter(), request({"accel:other": "fpga"})) == set()
