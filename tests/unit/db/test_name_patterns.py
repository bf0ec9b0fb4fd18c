# SPDX-License-Identifier: Apache-2.0
from collections.abc import Iterator

import pytest

from kilonova import deadline
from kilonova.db.name_patterns import LONGEST, matching, read_pattern
from kilonova.deadline import Deadline
from kilonova.errors import DeadlineExceeded, InvalidRequest
from support.worst_texts import cpu_limit

LONG_NAME = "a" * 254 + "!"

NASTY = [
    "(a+)+$",
    "(a|aa)+$",
    "(a|a?)+$",
    "(.*a){12}$",
    "^(([a-z])+.)+[A-Z]([a-z])+$",
    "[ab]*a[ab]{250}$",
    "(a{0,50}){0,3}x",
    "(?i)" + "(a|b|c|d)" * 50,
    ".*" * 100 + "x",
    "a?" * 100 + "a" * 100,
    r"(\w*)(\w*)(\w*)(\w*)(\w*)\d$",
    "^" + "a" * 510 + "$",
]


@pytest.mark.parametrize("text", NASTY)
def test_no_pattern_is_slow(text: str) -> None:
    pattern = read_pattern("name", text)
    with cpu_limit(1, text):
        assert len(matching({"name": pattern}, ((number, LONG_NAME) for number in range(500)), 500)) in {0, 500}


REFUSED = [
    "[",
    "(",
    r"(a)\1",
    "a(?=b)",
    "(?<!a)b",
    "a" * (LONGEST + 1),
    "((a{1,30}){1,30}){1,30}",
    "(a{0,1000}){0,1000}",
    ".{1000}",
    r"(\pL|\pN){1,200}$",
    r"\pL{100}",
]


@pytest.mark.parametrize("text", REFUSED)
def test_what_is_no_pattern_or_too_large_a_one_is_refused(text: str) -> None:
    with cpu_limit(1, text), pytest.raises(InvalidRequest, match="filter name") as refused:
        read_pattern("name", text)
    assert refused.value.fields == {"field": "name"}
    assert len(refused.value.message) < 500


def test_the_first_that_match_are_found_in_order() -> None:
    rows = [(7, "web-1"), (3, "db"), (5, "old-web"), (1, "web-2")]
    assert matching({"name": read_pattern("name", "web")}, rows, 10) == [7, 5, 1]
    assert matching({"name": read_pattern("name", "^web")}, rows, 1) == [7]
    assert matching({"name": read_pattern("name", "^WEB")}, rows, 1) == []


def test_a_search_that_takes_too_long_is_given_up() -> None:
    seconds: Iterator[float] = iter(range(0, 100_000, 2))
    rows = ((number, "a") for number in range(1_000_000))
    with pytest.raises(InvalidRequest, match="more than 5 seconds"):
        matching({"name": read_pattern("name", "b")}, rows, 1, clock=lambda: next(seconds))


def test_a_search_ends_with_the_deadline_of_its_request() -> None:
    rows = ((number, "a") for number in range(1_000_000))
    with deadline.running(Deadline(0.0, deadline.nobody_left)), pytest.raises(DeadlineExceeded):
        matching({"name": read_pattern("name", "b")}, rows, 1)
