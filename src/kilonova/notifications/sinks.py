# SPDX-License-Identifier: Apache-2.0
"""Sinks of notification messages: the protocol, and a sink that writes to a file."""

import logging
import sys
from pathlib import Path
from typing import Protocol

import orjson

from kilonova.clock import utc_now
from kilonova.identifiers import new_uuid
from kilonova.logs.rotation import LogFile, RotatingLog
from kilonova.model.requester import Requester
from kilonova.notifications.message import Message

_MAX_BYTES = 200 * 2**20
_KEPT = 5


class Sink(Protocol):
    """Destination of messages. Only the dispatcher's thread calls ``send`` and ``close``."""

    def send(self, message: Message) -> None:
        """Send a message; may block while the broker is unreachable. Raises: UnsentError, or any error of a driver."""

    def hurry(self) -> None:
        """Stop waiting for an unreachable broker, now and in later calls. May be called from any thread."""

    def close(self) -> None:
        """Release connections and files."""


class UnsentError(Exception):
    """Raised if a message could not be sent."""


class FileSink:
    """Writes each message as a line of JSON, with the keys that oslo.messaging uses at a broker."""

    def __init__(self, path: Path, level: str) -> None:
        self._level = level
        self._file = _Lines(LogFile(path, _MAX_BYTES, _KEPT))
        self._file.setFormatter(logging.Formatter("%(message)s"))

    def send(self, message: Message) -> None:
        line = {
            "message_id": new_uuid(),
            "publisher_id": message.publisher,
            "timestamp": f"{utc_now():%Y-%m-%d %H:%M:%S.%f}",
            "priority": "ERROR" if message.is_error else self._level,
            "event_type": message.event_type,
            "payload": message.payload,
            **{f"_context_{name}": value for name, value in context_of(message.who).items()},
        }
        text = orjson.dumps(line, default=str).decode()
        self._file.handle(logging.makeLogRecord({"msg": text}))

    def hurry(self) -> None:
        """Do nothing: writing to a file does not wait for a broker."""

    def close(self) -> None:
        self._file.close()


class _Lines(RotatingLog):
    """Rotating file that raises UnsentError if a line cannot be written."""

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802
        """Raise UnsentError for an error of writing a line, such as a full disk."""
        del record
        error = sys.exc_info()[1]
        raise UnsentError(str(error)) from error


def context_of(who: Requester | None) -> dict[str, str | None]:
    """Return the request context that is sent with the payload. It never contains a token."""
    if who is None:
        return {"request_id": None, "user_id": None, "project_id": None}
    return {"request_id": who.request_id, "user_id": who.user_id or None, "project_id": who.project_id or None}
