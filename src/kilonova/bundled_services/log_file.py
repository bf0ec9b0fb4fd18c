# SPDX-License-Identifier: Apache-2.0
"""Log files of Keystone and Glance: rotated by size, with one line per record, without values of SQL statements."""

from pathlib import Path
from typing import Any

import sqlalchemy
from sqlalchemy.engine import Engine

from kilonova.bundled_services.settings import LOG_BYTES, LOGS_KEPT
from kilonova.logs import setup
from kilonova.logs.rotation import LogFile


def take_over(path: str | None) -> None:
    """Redirect the log of a service to the file ``path``, or to standard error if it is None."""
    setup.take_over(None if path is None else LogFile(Path(path), LOG_BYTES, LOGS_KEPT))


def hide_sql_values(engines: Any = Engine) -> None:
    """Omit the values of SQL statements from errors of SQLAlchemy engines, by default of all: some are passwords."""
    sqlalchemy.event.listen(engines, "engine_connect", _hide)


def _hide(connection: Any) -> None:
    connection.engine.hide_parameters = True
