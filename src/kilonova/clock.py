# SPDX-License-Identifier: Apache-2.0
"""The current time as database tables store it: in UTC, without a time zone."""

from datetime import UTC, datetime


def utc_now() -> datetime:
    """Return the current time in UTC, without a time zone."""
    return datetime.now(UTC).replace(tzinfo=None)
