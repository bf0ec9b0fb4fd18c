# SPDX-License-Identifier: Apache-2.0
import os

from hypothesis import settings

from support.broker import broker
from support.databases import (
    database,
    database_servers,
    database_url,
    empty_database_url,
    kind,
    open_database,
    sqlite_template,
)

__all__ = [
    "broker",
    "database",
    "database_servers",
    "database_url",
    "empty_database_url",
    "kind",
    "open_database",
    "sqlite_template",
]

#: ``same`` tries the same examples every time, so that a change is judged by what it changes; ``new`` others each time.
settings.register_profile("same", derandomize=True)
settings.register_profile("new", max_examples=500)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "same"))
