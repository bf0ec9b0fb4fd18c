# SPDX-License-Identifier: Apache-2.0
"""JSON formatter for log collectors: one object per line, with the field names of oslo.log's ``use_json``."""

import json
import logging
import re
import socket
from datetime import UTC, datetime
from typing import Any

from kilonova.logs import request_context
from kilonova.logs.formatter import MAX_LINE, bounded, traceback_lines

#: Matches the request id at the end of a message about a server. Threads that work for many requests append it.
_NAMED = re.compile(r"\[(req-[0-9a-f-]{36})\]$")


class JsonFormatter(logging.Formatter):
    """Formats records as JSON in ASCII, so that no user input can end the line."""

    def __init__(self) -> None:
        super().__init__()
        self._hostname = socket.gethostname()

    def format(self, record: logging.LogRecord) -> str:
        message = bounded(record.getMessage(), MAX_LINE)
        told: dict[str, Any] = {
            "asctime": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "created": record.created,
            "levelname": record.levelname,
            "levelno": record.levelno,
            "name": record.name,
            "message": message,
            "funcname": record.funcName,
            "lineno": record.lineno,
            "hostname": self._hostname,
            "process": record.process,
            "process_name": record.processName,
            "thread_name": record.threadName,
            "context": _context(message),
        }
        if record.exc_info and record.exc_info[1] is not None:
            error = record.exc_info[1]
            told["error_summary"] = bounded(f"{type(error).__name__}: {error}", MAX_LINE)
            told["traceback"] = traceback_lines(error)
        return json.dumps(told, ensure_ascii=True, default=str)


def _context(message: str) -> dict[str, str | None]:
    request = request_context.current()
    if request is not None:
        return {
            "request_id": request.request_id,
            "global_request_id": request.global_request_id,
            "user_id": request.user_id or None,
            "project_id": request.project_id or None,
        }
    named = _NAMED.search(message)
    return {"request_id": named[1]} if named else {}
