# SPDX-License-Identifier: Apache-2.0
"""Durations as texts: a number and a unit, such as ``90s``, ``12h``, ``30d`` or ``1.5y``."""

import re

PATTERN = r"^[0-9]{1,9}(\.[0-9]{1,6})?(s|m|h|d|w|y)\Z"
HOUR_S, DAY_S, WEEK_S, YEAR_S = 3600.0, 86_400.0, 604_800.0, 31_536_000.0
_UNITS = {"s": 1.0, "m": 60.0, "h": HOUR_S, "d": DAY_S, "w": WEEK_S, "y": YEAR_S}
_READ = re.compile(PATTERN)


def seconds(text: str) -> float:
    """Return the seconds of a duration; a year has 365 days. Raises: ValueError."""
    if _READ.match(text) is None:
        raise ValueError(f"{text!r} is not a duration such as 12h, 30d or 1y")
    return float(text[:-1]) * _UNITS[text[-1]]
