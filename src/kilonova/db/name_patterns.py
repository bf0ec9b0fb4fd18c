# SPDX-License-Identifier: Apache-2.0
"""Regular expressions that users search names with.

They are matched here and by no database: each database has an engine of its own, with a language of its own, and some
can be kept busy for hours by a pattern like ``(a+)+$``. This engine's time grows with the pattern and the text alone.
"""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
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
    patterns: Mapping[str, Any],
    rows: Iterable[Sequence[Any]],
    wanted: int,
    *,
    clock: Callable[[], float] = time.monotonic,
) -> list[int]:
    """Return the ids of the first ``wanted`` rows in whose texts all patterns are found.

    ``patterns``: by parameter. A row is an id, and a text for each of them in their order; None has no pattern in it.
    Raises: InvalidRequest naming a parameter, when it takes too long; DeadlineExceeded, ClientGone.
    """
    found: list[int] = []
    searches = [pattern.search for pattern in patterns.values()]
    ends_at = clock() + LONGEST_SEARCH_S
    for number, (row_id, *texts) in enumerate(rows):
        if number % _BETWEEN_LOOKS == 0:
            deadline.check()
            if clock() > ends_at:
                raise _bad(next(iter(patterns)), f"it takes more than {LONGEST_SEARCH_S:g} seconds; use a simpler one")
        if all(text is not None and search(text) is not None for search, text in zip(searches, texts, strict=True)):
            found.append(row_id)
            if len(found) == wanted:
                break
    return found


def _bad(parameter: str, reason: str) -> InvalidRequest:
    return InvalidRequest(f"Invalid filter {parameter}: {reason}.", field=parameter)
