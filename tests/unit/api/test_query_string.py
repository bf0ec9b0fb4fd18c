# SPDX-License-Identifier: Apache-2.0
from dataclasses import replace

import pytest

from kilonova.api.faults import HttpError
from kilonova.api.query_string import REMEMBERED_LENGTH, read_query_string
from kilonova.config.api import ApiSettings
from kilonova.errors import InvalidRequest


@pytest.fixture
def few(settings: ApiSettings) -> ApiSettings:
    """Settings with low limits."""
    return replace(settings, max_query_length=5_000, max_query_parameters=3)


@pytest.fixture
def settings() -> ApiSettings:
    return ApiSettings()


def test_every_value_is_kept_in_order(settings: ApiSettings) -> None:
    for _ in range(2):  # the second answer is remembered
        query = read_query_string("b=2&a=&b=1&b=%C3%BC&c=x+y", settings)
        assert {name: list(values) for name, values in query.items()} == {"b": ["2", "1", "ü"], "a": [""], "c": ["x y"]}


def test_what_is_remembered_cannot_be_changed_by_who_gets_it(settings: ApiSettings) -> None:
    query = read_query_string("limit=1", settings)
    with pytest.raises(TypeError):
        query["limit"] = ("2",)  # type: ignore[index]
    assert isinstance(query["limit"], tuple)


@pytest.mark.parametrize("length", [0, REMEMBERED_LENGTH])
def test_a_limit_holds_for_what_another_limit_let_through(settings: ApiSettings, few: ApiSettings, length: int) -> None:
    text = "a=1&b=2&c=3&d=" + "4" * length
    assert len(read_query_string(text, settings)) == 4
    with pytest.raises(InvalidRequest, match=r"4 parameters were given; at most 3"):
        read_query_string(text, few)


def test_a_text_that_is_too_long_is_refused(few: ApiSettings) -> None:
    with pytest.raises(HttpError) as refused:
        read_query_string("a=" + "x" * 5_000, few)
    assert refused.value.status == 414
