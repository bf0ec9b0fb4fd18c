# SPDX-License-Identifier: Apache-2.0
"""The present time as the tables hold it."""

from datetime import UTC, datetime


def utc_now() -> datetime:
    """Return the present in UTC, without zone."""
    return datetime.now(UTC).replace(tzinfo=None)
