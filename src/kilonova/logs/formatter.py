# SPDX-License-Identifier: Apache-2.0
r"""Text formatter that writes each record as one escaped line, so that user input can forge no line of the log.

User input cannot send control sequences to a terminal that shows the log, either.

::

    2026-11-22 10:00:00,123 ERROR kilonova.api.application [req-… USER PROJECT] POST /servers failed
     | Traceback (most recent call last):
     |   File "…", line 7, in create
     | ValueError: what the user sent, with \n for each line break in it

Lines that begin with `` | `` belong to the record above them; no record begins like that. If several processes write to
the same log, the name of the process follows the name of the logger: ``[worker 2]``.
"""

import copy
import logging
import re
import traceback

from kilonova.logs import request_context

MAX_LINE = 8_192
MAX_TRACEBACK_LINE = 400
MAX_TRACEBACK_LINES = 60
_FORMAT = "%(asctime)s %(levelname)s %(name)s %(worker)s%(request)s%(message)s"
_ONLY_PROCESS = "MainProcess"
_FIRST_LINES = 15

#: Characters that are escaped: C0 and C1 controls, line and paragraph separators, bidirectional controls, lone
#: surrogates.
_UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
_NAMED = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def escape(text: str) -> str:
    """Escape all characters of ``text`` that would end the line or change its display."""
    return _UNSAFE.sub(_escape_one, text)


def bounded(text: str, limit: int) -> str:
    """Cut ``text`` to ``limit`` characters, and append the number of characters that were cut."""
    return text if len(text) <= limit else f"{text[:limit]}… ({len(text) - limit} characters more)"


class OneLineFormatter(logging.Formatter):
    """Formats a record with ``inner``, escapes and cuts the line, and appends traceback lines that begin with `` | ``.

    ``%(request)s`` in the inner format is replaced by the ids of the request that the thread handles, ``%(worker)s`` by
    the name of the process if the process has been given a name.
    """

    def __init__(self, inner: logging.Formatter | None = None) -> None:
        super().__init__()
        self._inner = inner or logging.Formatter(_FORMAT)

    def format(self, record: logging.LogRecord) -> str:
        request = request_context.current()
        record.request = "" if request is None else f"[{request}] "
        record.worker = "" if record.processName in (None, _ONLY_PROCESS) else f"[{record.processName}] "
        alone = record
        if record.exc_info or record.exc_text or record.stack_info:
            alone = copy.copy(record)
            alone.exc_info = alone.exc_text = alone.stack_info = None
        text = self._inner.format(alone)
        lines = [escape(bounded(text, MAX_LINE))]
        if record.exc_info and record.exc_info[1] is not None:
            lines += traceback_lines(record.exc_info[1])
        if record.stack_info:
            lines += _fitted(record.stack_info.splitlines())
        return "\n | ".join(lines)


def _escape_one(found: re.Match[str]) -> str:
    character = found.group()
    code = ord(character)
    return _NAMED.get(character) or (f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}")


def traceback_lines(error: BaseException) -> list[str]:
    """Return the lines of a traceback with its causes, escaped and limited in number and length."""
    lines: list[str] = []
    for part in traceback.TracebackException.from_exception(error, compact=True).format():
        # the text of a frame is trusted: location and source line; other parts may quote user input
        is_frame = part.startswith("  File ")
        lines += part.splitlines() if is_frame else [part.strip("\n")]
    return _fitted(lines)


def _fitted(lines: list[str]) -> list[str]:
    if (extra := len(lines) - MAX_TRACEBACK_LINES) > 0:
        last = len(lines) - (MAX_TRACEBACK_LINES - _FIRST_LINES)
        lines = [*lines[:_FIRST_LINES], f"… {extra} lines left out …", *lines[last:]]
    return [escape(bounded(line, MAX_TRACEBACK_LINE)) for line in lines]
