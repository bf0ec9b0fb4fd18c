# SPDX-License-Identifier: Apache-2.0
import pytest

from kilonova.scheduler.extra_specs import match, numeric


@pytest.mark.parametrize(
    ("value", "requirement", "expected"),
    [
        ("12", "12", True),
        ("12", " 12", False),
        ("", "", True),
        ("12", "= 12", True),
        ("13", "= 12", True),
        ("11", "= 12", False),
        ("12", "== 12.0", True),
        ("12", "!= 13", True),
        ("12", "<= 11", False),
        ("12", ">= 12", True),
        ("13", "> 12", False),
        ("> 12", "> 12", True),
        (None, "s== a", False),
        (None, "a", False),
        ("abc", "s== abc def", True),
        ("abc", "s!= abc", False),
        ("b", "s> a", True),
        ("10", "s< 9", True),
        ("a", "s<= a", True),
        ("a", "s>= b", False),
        ("abc", "s==", False),
        ("abc", "<in> b", True),
        ("abc", "<in> a d", True),
        ("abc", "<in> d", False),
        ("aes mmx", "<all-in> aes mmx", True),
        (["aes", "mmx", "aux"], "<all-in> aes mmx", True),
        (["aes", "mmx"], "<in> mmx", True),
        ("aes", "<all-in> aes mmx", False),
        ("aes", "<all-in>", False),
        ("v2", "<or> v1 <or> v2", True),
        ("v2", "<or> v1 v2", False),
        ("12", "<or>11<or>12", False),
    ],
)
def test_a_value_is_matched_as_executed_in_nova(value: str | None, requirement: str, expected: bool) -> None:
    assert match(value, requirement) is expected


@pytest.mark.parametrize(
    ("value", "requirement"),
    [
        ("abc", "= 12"),
        ("abc", "== 12"),
        ("12", "== abc"),
        ("12", "<or>"),
        ("12", "=="),
        (["12"], "== 12"),
        (["a"], "s== a"),
        (None, "== 12"),
        (None, "<in> a"),
    ],
)
def test_what_cannot_be_judged_does_not_match(value: str | None, requirement: str) -> None:
    assert match(value, requirement) is False


def test_only_number_comparisons_with_a_number_work_on_columns() -> None:
    comparison = numeric(">= 3")
    assert comparison is not None
    compare, operand = comparison
    assert compare(4, operand)
    assert [numeric(text) for text in ("3", ">= three", ">=", "<in> 3", "")] == [None] * 5
