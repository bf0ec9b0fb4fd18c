# SPDX-License-Identifier: Apache-2.0
"""Parsing and formatting of times in the compute API, all of them UTC."""

from datetime import UTC, date, datetime, timedelta

from kilonova.api.http import Request
from kilonova.api.microversion import Version
from kilonova.api.validation import invalid_parameter
from kilonova.errors import InvalidRequest


def read_time(parameter: str, text: str) -> datetime:
    """Parse the time ``text`` of a query parameter; without an offset it is in UTC. Returns naive UTC.

    Raises: InvalidRequest naming the parameter.
    """
    try:
        moment = datetime.fromisoformat(text)
        return moment.astimezone(UTC).replace(tzinfo=None) if moment.tzinfo else moment
    except (ValueError, OverflowError):  # OverflowError: the UTC offset leads to a time out of datetime's range
        raise invalid_parameter(parameter, text, "A date and time is expected.") from None


def read_moment(parameter: str, text: str) -> tuple[datetime, datetime]:
    """Return the interval [start, end) that the time ``text`` of a query parameter stands for.

    The interval is a day for a date, a second for a time without a fraction, and a microsecond for any other time.
    Raises: InvalidRequest naming the parameter.
    """
    try:
        begin, length = datetime.combine(date.fromisoformat(text), datetime.min.time()), timedelta(days=1)
    except ValueError:
        begin = read_time(parameter, text)
        length = timedelta(microseconds=1) if begin.microsecond else timedelta(seconds=1)
    try:
        return begin, begin + length
    except OverflowError:
        return begin, datetime.max  # noqa: DTZ901 - naive UTC like all others


def read_period(request: Request) -> tuple[datetime | None, datetime | None]:
    """Return the times ``changes-since`` and ``changes-before`` of a query, or None for an absent one.

    ``changes-before`` exists since 2.66. Raises: InvalidRequest.
    """
    names = ("changes-since", "changes-before") if request.version >= Version(2, 66) else ("changes-since",)
    given = {name: read_time(name, text) for name in names if (text := request.param(name)) is not None}
    since, before = given.get("changes-since"), given.get("changes-before")
    if since is not None and before is not None and since > before:
        raise InvalidRequest("changes-since must not be later than changes-before.", field="changes-since")
    return since, before


def stored_time(moment: datetime | None) -> str | None:
    """Format a time as ``2026-01-31T12:00:00.000000``; return None for None."""
    return None if moment is None else moment.isoformat(timespec="microseconds")


def whole_seconds(moment: datetime | None) -> str | None:
    """Format a time as ``2026-01-31T12:00:00Z``; return None for None."""
    return None if moment is None else f"{moment.isoformat(timespec='seconds')}Z"
