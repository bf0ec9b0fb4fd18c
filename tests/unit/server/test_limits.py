# SPDX-License-Identifier: Apache-2.0
import pytest

from kilonova.server.limits import Limits


@pytest.mark.parametrize(
    ("path", "most"),
    [("/compute", 10), ("/compute/v2.1/servers", 10), ("/computer", 3), ("/compute/images", 10), ("/", 3), ("", 3)],
)
def test_the_first_prefix_of_whole_segments_decides_the_size_of_a_body(path: str, most: int) -> None:
    assert Limits(bodies=(("/compute", 10), ("/compute/images", 20)), body=3).body_of(path) == most
