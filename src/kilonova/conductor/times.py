# SPDX-License-Identifier: Apache-2.0
"""The time as rows hold it, without asking the database."""

from datetime import UTC, datetime


def utc_now() -> datetime:
    """Return the present time in UTC, without zone."""
    return datetime.now(UTC).replace(tzinfo=None)
