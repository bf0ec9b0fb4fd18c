# SPDX-License-Identifier: Apache-2.0
from datetime import datetime

import pytest

from kilonova.model.audit_period import read_period


@pytest.mark.parametrize(
    ("period", "before", "begin", "end"),
    [
        ("hour", "2026-01-01 00:30", "2025-12-31 23:00", "2026-01-01 00:00"),
        ("hour@45", "2026-01-01 00:30", "2025-12-31 22:45", "2025-12-31 23:45"),
        ("hour@15", "2026-01-01 00:30", "2025-12-31 23:15", "2026-01-01 00:15"),
        ("day", "2026-03-01 12:00", "2026-02-28 00:00", "2026-03-01 00:00"),
        ("day@6", "2026-03-01 05:59", "2026-02-27 06:00", "2026-02-28 06:00"),
        ("month", "2026-01-31 00:00", "2025-12-01 00:00", "2026-01-01 00:00"),
        ("month", "2026-02-01 00:00", "2026-01-01 00:00", "2026-02-01 00:00"),
        ("month@15", "2026-01-14 23:59", "2025-11-15 00:00", "2025-12-15 00:00"),
        ("month@15", "2026-01-15 00:00", "2025-12-15 00:00", "2026-01-15 00:00"),
        ("year", "2026-06-01 00:00", "2025-01-01 00:00", "2026-01-01 00:00"),
        ("year@7", "2026-06-01 00:00", "2024-07-01 00:00", "2025-07-01 00:00"),
    ],
)
def test_the_period_that_was_over_last(period: str, before: str, begin: str, end: str) -> None:
    found = read_period(period).last_completed(datetime.fromisoformat(before))
    assert found == (datetime.fromisoformat(begin), datetime.fromisoformat(end))
    assert str(read_period(period)) == period


@pytest.mark.parametrize(
    "text", ["week", "month@0", "month@29", "hour@60", "day@24", "year@13", "month@", "", "month@1.5"]
)
def test_what_is_no_period(text: str) -> None:
    with pytest.raises(ValueError, match=r"must be|is from"):
        read_period(text)
