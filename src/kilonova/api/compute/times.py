# SPDX-License-Identifier: Apache-2.0
"""How the compute API writes times that it shows as stored: UTC with microseconds, no zone."""

from datetime import datetime


def stored_time(moment: datetime | None) -> str | None:
    """Return ``2026-01-31T12:00:00.000000``, None for none."""
    return None if moment is None else moment.strftime("%Y-%m-%dT%H:%M:%S.%f")
