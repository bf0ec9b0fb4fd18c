# SPDX-License-Identifier: Apache-2.0
"""Configuration of a process's logging at its start."""

import logging
import sys
import threading

from kilonova.logs.formatter import OneLineFormatter
from kilonova.logs.json_formatter import JsonFormatter
from kilonova.logs.rotation import LogFile, RotatingLog

LOG = logging.getLogger(__name__)
_CHATTY = ("alembic", "oslo_service", "sqlalchemy", "stevedore", "urllib3", "websockets")
_CHATTY_AT_DEBUG = ("asyncio", "keystoneauth", "keystonemiddleware", "oslo_policy", "oslo_config")


def configure(*, debug: bool = False, file: LogFile | None = None, as_json: bool = False) -> None:
    """Configure logging to ``file``, or to standard error. Raises: OSError, if the file cannot be written."""
    _log_to(file, JsonFormatter() if as_json else OneLineFormatter())
    set_level(debug=debug)
    for name in _CHATTY:
        logging.getLogger(name).setLevel(logging.WARNING)
    for name in _CHATTY_AT_DEBUG:
        logging.getLogger(name).setLevel(logging.INFO)
    threading.excepthook = _log_end_of_thread


def set_level(*, debug: bool) -> None:
    """Set the level of the root logger, which the loggers of plug-ins inherit."""
    logging.getLogger().setLevel(logging.DEBUG if debug else logging.INFO)


def take_over(file: LogFile | None) -> None:
    """Redirect the log of an OpenStack service to ``file`` or standard error.

    The levels and the format that the service has set up are kept.
    """
    inner = next((handler.formatter for handler in logging.getLogger().handlers if handler.formatter), None)
    _log_to(file, OneLineFormatter(inner))
    threading.excepthook = _log_end_of_thread


def _log_to(file: LogFile | None, formatter: logging.Formatter) -> None:
    handler = logging.StreamHandler(sys.stderr) if file is None else RotatingLog(file)
    handler.setFormatter(formatter)
    root = logging.getLogger()
    for old in list(root.handlers):
        root.removeHandler(old)
        old.close()
    root.addHandler(handler)


def _log_end_of_thread(what: threading.ExceptHookArgs) -> None:
    name = what.thread.name if what.thread else "unknown"
    if what.exc_value is not None:
        LOG.error("Thread %s was ended by an exception", name, exc_info=what.exc_value)
