# SPDX-License-Identifier: Apache-2.0
"""The logs of Keystone and Glance: rotated by size, one line a record, no values of SQL statements in it."""

from pathlib import Path
from typing import Any

import sqlalchemy
from sqlalchemy.engine import Engine

from kilonova.bundled_services.settings import LOG_BYTES, LOGS_KEPT
from kilonova.logs import setup
from kilonova.logs.rotation import LogFile


def take_over(path: str | None) -> None:
    """Let the service that has just been configured log into ``path``, or to standard error without one."""
    setup.take_over(None if path is None else LogFile(Path(path), LOG_BYTES, LOGS_KEPT))


def hide_sql_values(engines: Any = Engine) -> None:
    """Keep the values of statements out of errors, on one engine or on all: there are passwords among them."""
    sqlalchemy.event.listen(engines, "engine_connect", _hide)


def _hide(connection: Any) -> None:
    connection.engine.hide_parameters = True
