# SPDX-License-Identifier: Apache-2.0
from typing import Any

import pytest

from kilonova.model.image import Image
from kilonova.model.image_properties import (
    canonical_value,
    image_property,
    image_property_names,
    present_name,
    shutdown_timeout_s,
)


@pytest.mark.parametrize(
    ("properties", "expected"),
    [
        ({"hw_architecture": "x86_64", "architecture": "arm"}, "x86_64"),
        ({"hw_architecture": "", "architecture": "arm"}, "arm"),
        ({"architecture": 7}, "7"),
        ({"hw_architecture": False}, None),
        ({}, None),
    ],
)
def test_the_present_name_of_a_property_comes_before_its_former_one(
    properties: dict[str, Any], expected: str | None
) -> None:
    assert image_property(Image("i", properties=properties), "hw_architecture") == expected


def test_without_an_image_there_is_no_property() -> None:
    assert image_property(None, "hw_architecture") is None
    assert image_property_names(None) == frozenset()


def test_a_property_with_a_former_name_is_found_under_both_names() -> None:
    assert image_property_names(Image("i", properties={"vm_mode": "hvm", "x": "y"})) == {"vm_mode", "hw_vm_mode", "x"}
    assert (present_name("vm_mode"), present_name("hw_vm_mode"), present_name("x")) == ("hw_vm_mode", "hw_vm_mode", "x")


@pytest.mark.parametrize(
    ("name", "value", "canonical"),
    [
        ("hw_architecture", "AMD64", "x86_64"),
        ("hw_architecture", "i586", "i686"),
        ("img_hv_type", "XAPI", "xen"),
        ("hw_vm_mode", "hv", "hvm"),
        ("os_distro", "Ubuntu", "Ubuntu"),
    ],
)
def test_values_have_one_spelling_where_nova_knows_several(name: str, value: str, canonical: str) -> None:
    assert canonical_value(name, value) == canonical


@pytest.mark.parametrize(("value", "expected"), [("60", 60.0), (5, 5.0), ("", None), ("-1", None), ("¹", None)])
def test_a_shutdown_timeout_is_a_whole_number_of_seconds(value: Any, expected: float | None) -> None:
    assert shutdown_timeout_s({"os_shutdown_timeout": value}) == expected
