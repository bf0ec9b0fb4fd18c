# SPDX-License-Identifier: Apache-2.0
"""The URL with which OpenStack services open an SQLite database. `sqlite.py` adapts them to SQLite."""

from pathlib import Path

BUSY_TIMEOUT_S = 30


def url(database: Path) -> str:
    return f"sqlite:///{database}?timeout={BUSY_TIMEOUT_S}"
