# SPDX-License-Identifier: Apache-2.0
"""The current time in the form of the database tables: UTC without zone."""

from datetime import UTC, datetime


def utc_now() -> datetime:
    """Return the current time in UTC, without zone."""
    return datetime.now(UTC).replace(tzinfo=None)
