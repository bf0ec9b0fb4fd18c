# SPDX-License-Identifier: Apache-2.0
"""Regular expressions that users search names with.

They are matched here and by no database: each database has an engine of its own, with a language of its own, and some
can be kept busy for hours by a pattern like ``(a+)+$``. This engine's time grows with the pattern and the text alone.
"""

import time
from collections.abc import Callable, Iterable
from typing import Any

import re2  # type: ignore[import-untyped]

from kilonova import deadline
from kilonova.errors import InvalidRequest

#: Characters of a pattern: enough for any name with every character escaped.
LONGEST = 512
#: Instructions that a pattern may be compiled to; counted repetitions multiply them.
MOST_INSTRUCTIONS = 1000
#: Seconds that one search may spend, however many names there are.
LONGEST_SEARCH_S = 5.0
_MEMORY = 2**20
_BETWEEN_LOOKS = 64


def read_pattern(parameter: str, text: str) -> Any:
    """Compile what a user wrote. Raises: InvalidRequest naming the parameter."""
    if len(text) > LONGEST:
        raise _bad(parameter, f"it is longer than {LONGEST} characters")
    options = re2.Options()
    options.log_errors = False
    options.never_capture = True
    options.max_mem = _MEMORY
    try:
        pattern = re2.compile(text, options)
    except re2.error as error:
        reason = error.args[0] if error.args else ""
        said = reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
        raise _bad(parameter, f"not a regular expression ({said[:200]})") from None
    if pattern.programsize > MOST_INSTRUCTIONS:
        raise _bad(parameter, "it repeats too much")
    return pattern


def matching(
    parameter: str,
    pattern: Any,
    rows: Iterable[tuple[int, str]],
    wanted: int,
    *,
    clock: Callable[[], float] = time.monotonic,
) -> list[int]:
    """Return the ids of the first ``wanted`` rows (id, name) in whose name the pattern is found.

    Raises: InvalidRequest naming the parameter, when it takes too long; DeadlineExceeded, ClientGone.
    """
    found: list[int] = []
    ends_at = clock() + LONGEST_SEARCH_S
    for number, (row_id, name) in enumerate(rows):
        if number % _BETWEEN_LOOKS == 0:
            deadline.check()
            if clock() > ends_at:
                raise _bad(parameter, f"it takes more than {LONGEST_SEARCH_S:g} seconds; use a simpler one")
        if pattern.search(name) is not None:
            found.append(row_id)
            if len(found) == wanted:
                break
    return found


def _bad(parameter: str, reason: str) -> InvalidRequest:
    return InvalidRequest(f"Invalid filter {parameter}: {reason}.", field=parameter)
