# SPDX-License-Identifier: Apache-2.0
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
    "database",
    "database_servers",
    "database_url",
    "empty_database_url",
    "kind",
    "open_database",
    "sqlite_template",
]
