# SPDX-License-Identifier: Apache-2.0
"""When audit periods begin and end."""

from datetime import datetime

import pytest

from kilonova.model.audit_periods import AuditPeriods, Period

NOON = datetime(2026, 3, 10, 12, 20, 30)  # noqa: DTZ001 - times are UTC everywhere


def at(*parts: int) -> datetime:
    return datetime(*parts)  # type: ignore[arg-type]  # noqa: DTZ001


@pytest.mark.parametrize(
    ("text", "begin", "end"),
    [
        ("hour", at(2026, 3, 10, 11), at(2026, 3, 10, 12)),
        ("hour@30", at(2026, 3, 10, 10, 30), at(2026, 3, 10, 11, 30)),
        ("day", at(2026, 3, 9), at(2026, 3, 10)),
        ("day@18", at(2026, 3, 8, 18), at(2026, 3, 9, 18)),
        ("month", at(2026, 2, 1), at(2026, 3, 1)),
        ("month@15", at(2026, 1, 15), at(2026, 2, 15)),
        ("month@28", at(2026, 1, 28), at(2026, 2, 28)),
        ("year", at(2025, 1, 1), at(2026, 1, 1)),
        ("year@4", at(2024, 4, 1), at(2025, 4, 1)),
    ],
)
def test_the_last_period_that_is_over(text: str, begin: datetime, end: datetime) -> None:
    periods = AuditPeriods.parse(text)
    assert periods.last_completed(NOON) == Period(begin, end)
    assert periods.present(NOON) == Period(end, NOON)
    assert periods.last_completed(end) == Period(begin, end)


@pytest.mark.parametrize("text", ["", "week", "day@24", "day@-1", "month@0", "month@29", "year@13", "hour@x", "day@²"])
def test_what_is_no_period(text: str) -> None:
    with pytest.raises(ValueError, match=r"is no period|must be a number"):
        AuditPeriods.parse(text)


def test_it_is_written_as_it_is_read() -> None:
    assert str(AuditPeriods.parse("day@6")) == "day@6"
    assert AuditPeriods.parse(str(AuditPeriods())) == AuditPeriods()
