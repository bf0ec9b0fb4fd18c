# SPDX-License-Identifier: Apache-2.0
from datetime import datetime, timedelta

import pytest

from kilonova.api.compute.uptimes import uptime_text

NOW = datetime.fromisoformat("2026-01-31T08:05:09")


@pytest.mark.parametrize(
    ("passed", "length"),
    [
        (timedelta(seconds=-5), "0 min"),
        (timedelta(minutes=59, seconds=59), "59 min"),
        (timedelta(hours=1), " 1:00"),
        (timedelta(hours=23, minutes=7), "23:07"),
        (timedelta(days=1, minutes=2), "1 day, 2 min"),
        (timedelta(days=12, hours=3, minutes=4), "12 days,  3:04"),
    ],
)
def test_the_uptime_is_written_as_the_command_writes_it(passed: timedelta, length: str) -> None:
    expected = f" 08:05:09 up {length},  0 users,  load average: 0.00, 0.00, 0.00"
    assert uptime_text(NOW - passed, NOW) == expected
