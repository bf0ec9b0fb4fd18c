# SPDX-License-Identifier: Apache-2.0
import pytest
from tests.unit.scheduler.small_cloud import host, request, table

from kilonova.model.image import Image
from kilonova.scheduler.filters import IsolatedHostsFilter
from kilonova.scheduler.settings import SchedulerConfig


@pytest.mark.parametrize(
    ("images", "restrict", "image", "expected"),
    [
        ((), True, "plain", [False, True]),
        ((), False, "plain", [True, True]),
        (("secret",), True, "secret", [True, False]),
        (("secret",), True, "plain", [False, True]),
        (("secret",), True, None, [False, True]),
        (("secret",), False, "secret", [True, False]),
        (("secret",), False, "plain", [True, True]),
    ],
)
def test_isolated_images_go_to_isolated_hosts(
    images: tuple[str, ...], restrict: bool, image: str | None, expected: list[bool]
) -> None:
    rule = IsolatedHostsFilter.configured(
        SchedulerConfig(
            isolated_images=images,
            isolated_hosts=("vault", "not there"),
            restrict_isolated_hosts_to_isolated_images=restrict,
        )
    )
    spec = request(image=None if image is None else Image(image))
    assert rule.passes(table(host("vault"), host("open")), spec).tolist() == expected
