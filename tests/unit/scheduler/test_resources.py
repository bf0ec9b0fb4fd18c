# SPDX-License-Identifier: Apache-2.0
import pytest
from tests.unit.scheduler.small_cloud import flavor, request

from kilonova.model.image import Image
from kilonova.scheduler.resources import resource_query, with_resources

BASE = {"VCPU": 2, "MEMORY_MB": 2048, "DISK_GB": 20}


@pytest.mark.parametrize(
    ("extra_specs", "expected"),
    [
        ({}, BASE),
        ({"resources:VCPU": "0"}, {"MEMORY_MB": 2048, "DISK_GB": 20}),
        ({"resources:MEMORY_MB": "4096"}, {**BASE, "MEMORY_MB": 4096}),
        ({"resources:CUSTOM_GOLD": "1"}, {**BASE, "CUSTOM_GOLD": 1}),
        ({"resources1:VGPU": "1", "resources_b-2:VGPU": "2"}, {**BASE, "VGPU": 3}),
        ({"resources1:DISK_GB": "5"}, {**BASE, "DISK_GB": 5}),
        ({"resources:PCPU": "2"}, {"PCPU": 2, "MEMORY_MB": 2048, "DISK_GB": 20}),
        ({"resources:VGPU": "one"}, BASE),
        ({"resources:VGPU": "-1"}, BASE),
        ({"resources:": "1", "resourcesVGPU": "1", "my_resources:VGPU": "1"}, BASE),
    ],
)
def test_extra_specs_override_the_flavor(extra_specs: dict[str, str], expected: dict[str, int]) -> None:
    asked = resource_query(flavor(extra_specs, vcpus=2, memory_mib=2048, root_gib=20))
    assert asked.resources == expected


@pytest.mark.parametrize(
    ("root", "ephemeral", "swap", "volume_backed", "expected"),
    [
        (20, 0, 0, False, 20),
        (20, 10, 1, False, 31),
        (20, 10, 1024, False, 31),
        (20, 10, 1025, False, 32),
        (20, 10, 0, True, 10),
        (20, 0, 0, True, None),
        (0, 0, 0, False, None),
    ],
)
def test_disk_is_root_and_ephemeral_and_swap(
    root: int, ephemeral: int, swap: int, volume_backed: bool, expected: int | None
) -> None:
    asked = resource_query(flavor(root_gib=root, ephemeral_gib=ephemeral, swap_mib=swap), volume_backed=volume_backed)
    assert asked.resources.get("DISK_GB") == expected


def test_traits_come_from_flavor_and_image() -> None:
    asked = resource_query(
        flavor({"trait:A": "required", "trait:B": "forbidden", "trait3:C": "required", "trait:D": "maybe"}),
        Image("i", properties={"trait:E": "required", "trait:F": "forbidden", "os": "required"}),
    )
    assert asked.required == {"A", "C", "E"}
    assert asked.forbidden == {"B"}


def test_what_the_query_already_asks_for_is_kept() -> None:
    spec = request({"trait:A": "required"}).with_query(
        required=frozenset({"B"}), forbidden=frozenset({"C"}), member_of=(frozenset({"u"}),)
    )
    query = with_resources(spec).query
    assert query.required == {"A", "B"}
    assert query.forbidden == {"C"}
    assert query.member_of == (frozenset({"u"}),)
    assert query.resources == {"VCPU": 1, "MEMORY_MB": 512, "DISK_GB": 1}
