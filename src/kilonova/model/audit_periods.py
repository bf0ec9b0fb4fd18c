# SPDX-License-Identifier: Apache-2.0
"""The periods after which consumers are told what exists: months, days, hours or years, from an offset on.

``month@15``: from the 15th; ``day@6``: from six o'clock; ``hour@30``: from half past; ``year@4``: from April. UTC.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

_MONTHS = 12
_LAST_DAY_OF_ALL_MONTHS = 28


class Unit(StrEnum):
    HOUR = "hour"
    DAY = "day"
    MONTH = "month"
    YEAR = "year"


#: The values that an offset may have: the first and the last.
_OFFSETS = {Unit.HOUR: (0, 59), Unit.DAY: (0, 23), Unit.MONTH: (1, _LAST_DAY_OF_ALL_MONTHS), Unit.YEAR: (1, _MONTHS)}


@dataclass(frozen=True, slots=True)
class Period:
    """From ``begin`` to ``end``, which is no longer part of it."""

    begin: datetime
    end: datetime


@dataclass(frozen=True, slots=True)
class AuditPeriods:
    """Periods of a unit that begin ``offset`` minutes, hours, days or months after the unit does."""

    unit: Unit = Unit.MONTH
    offset: int = 1

    def __str__(self) -> str:
        return f"{self.unit}@{self.offset}"

    @classmethod
    def parse(cls, text: str) -> "AuditPeriods":
        """Read ``unit`` or ``unit@offset``. Raises: ValueError, which completes the name of an option."""
        name, given, offset = text.strip().partition("@")
        if name not in {*Unit}:
            raise ValueError(f"is {text!r}, and has to be one of {', '.join(Unit)}, maybe with @ and an offset.")
        unit = Unit(name)
        least, most = _OFFSETS[unit]
        if not given:
            return cls(unit, least)
        if not (offset.isascii() and offset.isdigit() and least <= int(offset) <= most):
            raise ValueError(f"is {text!r}, and an offset of a {unit} is a number from {least} to {most}.")
        return cls(unit, int(offset))

    def last_completed(self, now: datetime) -> Period:
        """Return the newest period that is over."""
        end = self._begin_of(now)
        return Period(self._begin_of(end - timedelta(microseconds=1)), end)

    def present(self, now: datetime) -> Period:
        """Return the part of the present period that is over."""
        return Period(self._begin_of(now), now)

    def _begin_of(self, moment: datetime) -> datetime:
        """Return when the period of a moment began."""
        hour = moment.replace(minute=0, second=0, microsecond=0)
        if self.unit is Unit.HOUR:
            begin = hour.replace(minute=self.offset)
            return begin if begin <= moment else begin - timedelta(hours=1)
        day = hour.replace(hour=0)
        if self.unit is Unit.DAY:
            begin = day.replace(hour=self.offset)
            return begin if begin <= moment else begin - timedelta(days=1)
        if self.unit is Unit.MONTH:
            begin = day.replace(day=self.offset)
            return begin if begin <= moment else (day.replace(day=1) - timedelta(days=1)).replace(day=self.offset)
        begin = day.replace(month=self.offset, day=1)
        return begin if begin <= moment else begin.replace(year=begin.year - 1)
