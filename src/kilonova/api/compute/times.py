# SPDX-License-Identifier: Apache-2.0
"""How the compute API reads and writes times, all of them in UTC."""

from datetime import UTC, date, datetime, timedelta

from kilonova.api.http import Request
from kilonova.api.microversion import Version
from kilonova.api.validation import invalid_parameter
from kilonova.errors import InvalidRequest


def read_time(parameter: str, text: str) -> datetime:
    """Read a date and time of a query as UTC, which it is without an offset. Raises: InvalidRequest naming it."""
    try:
        moment = datetime.fromisoformat(text)
        return moment.astimezone(UTC).replace(tzinfo=None) if moment.tzinfo else moment
    except (ValueError, OverflowError):  # an offset may lead beyond the first or the last day of the calendar
        raise invalid_parameter(parameter, text, "A date and time is expected.") from None


def read_moment(parameter: str, text: str) -> tuple[datetime, datetime]:
    """Read a time of a query as the span that is written the same: a day, a second, or a part of one.

    Returns the first moment of it and the first one after it. Raises: InvalidRequest naming the parameter.
    """
    try:
        begin, length = datetime.combine(date.fromisoformat(text), datetime.min.time()), timedelta(days=1)
    except ValueError:
        begin = read_time(parameter, text)
        length = timedelta(microseconds=1) if begin.microsecond else timedelta(seconds=1)
    try:
        return begin, begin + length
    except OverflowError:
        return begin, datetime.max  # noqa: DTZ901 - as the others, in UTC


def read_period(request: Request) -> tuple[datetime | None, datetime | None]:
    """Read ``changes-since`` and, from 2.66 on, ``changes-before``; None for what is not given.

    Raises: InvalidRequest.
    """
    names = ("changes-since", "changes-before") if request.version >= Version(2, 66) else ("changes-since",)
    given = {name: read_time(name, text) for name in names if (text := request.param(name)) is not None}
    since, before = given.get("changes-since"), given.get("changes-before")
    if since is not None and before is not None and since > before:
        raise InvalidRequest("changes-since must not be later than changes-before.", field="changes-since")
    return since, before


def stored_time(moment: datetime | None) -> str | None:
    """Return ``2026-01-31T12:00:00.000000``, None for none."""
    return None if moment is None else moment.strftime("%Y-%m-%dT%H:%M:%S.%f")


def whole_seconds(moment: datetime | None) -> str | None:
    """Return ``2026-01-31T12:00:00Z``, None for none."""
    return None if moment is None else moment.strftime("%Y-%m-%dT%H:%M:%SZ")
