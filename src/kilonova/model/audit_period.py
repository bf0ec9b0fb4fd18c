# SPDX-License-Identifier: Apache-2.0
"""The periods by which the use of servers is accounted for: hours, days, months or years, from an offset on."""

import re
from dataclasses import dataclass
from datetime import datetime, timedelta

_WRITTEN = re.compile(r"(hour|day|month|year)(?:@([0-9]{1,2}))?")
#: unit → least and greatest offset: minutes of the hour, hours of the day, days of the month, months of the year.
_OFFSETS = {"hour": (0, 59), "day": (0, 23), "month": (1, 28), "year": (1, 12)}


@dataclass(frozen=True, slots=True)
class AuditPeriod:
    """Periods of one ``unit``, which begin at ``offset``."""

    unit: str
    offset: int

    def __str__(self) -> str:
        return self.unit if self.offset == _OFFSETS[self.unit][0] else f"{self.unit}@{self.offset}"

    def last_completed(self, before: datetime) -> tuple[datetime, datetime]:
        """Return when the period that was over last at ``before`` began and ended."""
        end = self._begins_around(before)
        if end > before:
            end = self._earlier(end)
        return self._earlier(end), end

    def _begins_around(self, moment: datetime) -> datetime:
        """Return when a period begins in the hour, day, month or year of a moment."""
        midnight = moment.replace(hour=0, minute=0, second=0, microsecond=0)
        match self.unit:
            case "hour":
                return midnight.replace(hour=moment.hour, minute=self.offset)
            case "day":
                return midnight.replace(hour=self.offset)
            case "month":
                return midnight.replace(day=self.offset)
        return midnight.replace(month=self.offset, day=1)

    def _earlier(self, moment: datetime) -> datetime:
        match self.unit:
            case "hour":
                return moment - timedelta(hours=1)
            case "day":
                return moment - timedelta(days=1)
            case "month":
                # Periods begin on days that every month has.
                year, month = divmod(moment.year * 12 + moment.month - 2, 12)
                return moment.replace(year=year, month=month + 1)
        return moment.replace(year=moment.year - 1)


def read_period(text: str) -> AuditPeriod:
    """Read ``month``, or ``month@15`` for one that begins on the 15th. Raises: ValueError."""
    found = _WRITTEN.fullmatch(text)
    if found is None:
        raise ValueError("must be hour, day, month or year, and may end in @ and an offset, as in month@15")
    unit, (least, greatest) = found[1], _OFFSETS[found[1]]
    offset = least if found[2] is None else int(found[2])
    if not least <= offset <= greatest:
        raise ValueError(f"has an offset of {offset}; that of a {unit} is from {least} to {greatest}")
    return AuditPeriod(unit, offset)
