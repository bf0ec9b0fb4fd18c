# SPDX-License-Identifier: Apache-2.0
"""The databases on which `kilonova api` may have several worker processes."""

from kilonova.errors import ConfigurationError


def require_server_database(workers: int, connection: str) -> None:
    """Raise ConfigurationError if several workers would share an SQLite database. ``connection``: its URL."""
    if workers > 1 and connection.partition(":")[0].partition("+")[0] == "sqlite":
        raise ConfigurationError(
            f"[DEFAULT] osapi_compute_workers = {workers} needs PostgreSQL or MariaDB: an SQLite database has only one "
            "control process. Set [database] connection, or osapi_compute_workers = 1."
        )
