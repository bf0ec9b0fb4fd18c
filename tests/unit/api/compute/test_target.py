# SPDX-License-Identifier: Apache-2.0
import pytest

from kilonova.api.compute.target import split_zone
from kilonova.errors import InvalidRequest


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("west", ("west", None, None)),
        ("west:", ("west", None, None)),
        ("west:node1", ("west", "node1", None)),
        ("west:node1:hv1", ("west", "node1", "hv1")),
        ("west::hv1", ("west", None, "hv1")),
        (":node1", (None, "node1", None)),
        ("", (None, None, None)),
    ],
)
def test_a_zone_may_name_a_host_and_a_node(text: str, parts: tuple[str | None, ...]) -> None:
    assert split_zone(text) == parts


def test_more_parts_are_refused() -> None:
    with pytest.raises(InvalidRequest, match="a:b:c:d"):
        split_zone("a:b:c:d")
