# SPDX-License-Identifier: Apache-2.0
"""Uptime in the format of the command ``uptime``, which clients parse."""

from datetime import datetime

_DAY_S, _HOUR_S = 86400, 3600


def uptime_text(since: datetime, now: datetime) -> str:
    """Return an uptime in the output format of ``uptime``, with 0 users and a load of 0. Minutes are rounded down."""
    seconds = max(0, int((now - since).total_seconds()))
    days, hours, minutes = seconds // _DAY_S, seconds % _DAY_S // _HOUR_S, seconds % _HOUR_S // 60
    length = f"{hours:2}:{minutes:02}" if hours else f"{minutes} min"
    if days:
        length = f"{days} day{'' if days == 1 else 's'}, {length}"
    return f" {now:%H:%M:%S} up {length},  0 users,  load average: 0.00, 0.00, 0.00"
