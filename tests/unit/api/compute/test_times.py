# SPDX-License-Identifier: Apache-2.0
from datetime import datetime, timedelta

import pytest

from kilonova.api.compute.times import read_moment, read_time, stored_time, whole_seconds
from kilonova.errors import InvalidRequest

NOON = datetime.fromisoformat("2026-01-31T12:00:00")


@pytest.mark.parametrize(
    "text", ["2026-01-31T12:00:00", "2026-01-31 12:00:00Z", "2026-01-31T14:00:00+02:00", "2026-01-31T12:00"]
)
def test_times_are_converted_to_utc(text: str) -> None:
    assert read_time("changes-since", text) == NOON


@pytest.mark.parametrize("text", ["", "yesterday", "2026-02-30T00:00:00", "0001-01-01T00:00:00+10:00"])
def test_texts_that_are_no_times_are_refused_by_parameter(text: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        read_time("changes-since", text)
    assert refused.value.fields["field"] == "changes-since"


@pytest.mark.parametrize(
    ("text", "length"),
    [
        ("2026-01-31", timedelta(days=1)),
        ("2026-01-31T12:00:00", timedelta(seconds=1)),
        ("2026-01-31T12:00:00.5", timedelta(microseconds=1)),
    ],
)
def test_a_moment_is_as_long_as_its_last_unit(text: str, length: timedelta) -> None:
    begin, end = read_moment("created_at", text)
    assert end - begin == length
    assert begin.date() == NOON.date()


def test_the_last_day_of_all_ends_with_the_last_microsecond() -> None:
    assert read_moment("created_at", "9999-12-31")[1] == datetime.max  # noqa: DTZ901 - as the API has it


def test_times_are_shown_with_microseconds_or_as_whole_seconds() -> None:
    moment = NOON.replace(microsecond=250)
    assert (stored_time(moment), whole_seconds(moment)) == ("2026-01-31T12:00:00.000250", "2026-01-31T12:00:00Z")
    assert (stored_time(None), whole_seconds(None)) == (None, None)
