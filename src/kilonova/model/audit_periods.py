# SPDX-License-Identifier: Apache-2.0
"""Audit periods of ``instance.exists`` notifications: hours, days, months or years, with an offset.

A period ``month@15`` starts on the 15th of each month, ``day@6`` at 06:00 of each day, ``hour@30`` at minute 30 of each
hour, ``year@4`` on 1 April. Times are UTC.
"""

from datetime import datetime, timedelta
from enum import StrEnum

from kilonova.records import dataclass

_MONTHS = 12
_LAST_DAY_OF_ALL_MONTHS = 28


class Unit(StrEnum):
    HOUR = "hour"
    DAY = "day"
    MONTH = "month"
    YEAR = "year"


#: Unit → smallest and largest valid offset.
_OFFSETS = {Unit.HOUR: (0, 59), Unit.DAY: (0, 23), Unit.MONTH: (1, _LAST_DAY_OF_ALL_MONTHS), Unit.YEAR: (1, _MONTHS)}


@dataclass(frozen=True, slots=True)
class Period:
    """A period of time that includes ``begin`` and excludes ``end``."""

    begin: datetime
    end: datetime


@dataclass(frozen=True, slots=True)
class AuditPeriods:
    """The configured audit period: a unit of time, and the offset in this unit at which each period starts.

    ``offset``: minute of an hour, hour of a day, day of a month, or month of a year.
    """

    unit: Unit = Unit.MONTH
    offset: int = 1

    def __str__(self) -> str:
        return f"{self.unit}@{self.offset}"

    @classmethod
    def parse(cls, text: str) -> "AuditPeriods":
        """Parse ``unit`` or ``unit@offset``. Raises: ValueError."""
        name, given, offset = text.strip().partition("@")
        if name not in {*Unit}:
            raise ValueError(f"{text!r} is no period; use one of {', '.join(Unit)}, optionally with @ and an offset.")
        unit = Unit(name)
        least, most = _OFFSETS[unit]
        if not given:
            return cls(unit, least)
        if not (offset.isascii() and offset.isdigit() and least <= int(offset) <= most):
            raise ValueError(f"In {text!r}, the offset of a {unit} must be a number from {least} to {most}.")
        return cls(unit, int(offset))

    def last_completed(self, now: datetime) -> Period:
        """Return the newest completed period."""
        end = self._begin_of(now)
        return Period(self._begin_of(end - timedelta(microseconds=1)), end)

    def present(self, now: datetime) -> Period:
        """Return the current period, from its start until ``now``."""
        return Period(self._begin_of(now), now)

    def _begin_of(self, moment: datetime) -> datetime:
        """Return the start of the period that contains ``moment``."""
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
