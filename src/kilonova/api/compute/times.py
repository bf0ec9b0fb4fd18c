# SPDX-License-Identifier: Apache-2.0
"""How the compute API writes times, all of them in UTC."""

from datetime import datetime


def stored_time(moment: datetime | None) -> str | None:
    """Return ``2026-01-31T12:00:00.000000``, None for none."""
    return None if moment is None else moment.strftime("%Y-%m-%dT%H:%M:%S.%f")


def whole_seconds(moment: datetime | None) -> str | None:
    """Return ``2026-01-31T12:00:00Z``, None for none."""
    return None if moment is None else moment.strftime("%Y-%m-%dT%H:%M:%SZ")
