# SPDX-License-Identifier: Apache-2.0
"""Sizes, ages and guests in the list of cached images."""

import pytest

from kilonova.cli.commands.images import _age, _size, _some


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (5 << 30, "5.0 GiB"), (1 << 50, "1024.0 TiB")],
)
def test_sizes_have_binary_units(size: int, text: str) -> None:
    assert _size(size) == text


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0 s"), (59, "59 s"), (3599, "59 min"), (86_399, "23 h"), (200_000, "2 d")]
)
def test_ages_have_one_unit(seconds: int, text: str) -> None:
    assert _age(seconds) == text


def test_many_guests_are_counted() -> None:
    assert _some(["a", "b", "c"]) == "a, b, c"
    assert _some(["a", "b", "c", "d"]) == "a, b, c and 1 more"
    assert _some([]) == ""
