# SPDX-License-Identifier: Apache-2.0
"""Regular expressions by which users search for names and addresses.

They are evaluated here with RE2 and not by the database: each database has its own dialect, and some need hours for a
pattern like ``(a+)+$``. A search with RE2 takes a time linear in the length of the text.
"""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import re2  # type: ignore[import-untyped]

from kilonova import deadline
from kilonova.errors import InvalidRequest

#: Maximum length of a pattern, in characters: enough for any name with every character escaped.
LONGEST = 512
#: Maximum number of instructions of a compiled pattern; counted repetitions such as ``a{100}`` multiply instructions.
MOST_INSTRUCTIONS = 1000
#: Timeout of one search over all names, in seconds.
LONGEST_SEARCH_S = 5.0
_MEMORY = 2**20
_IPV4, _IPV6 = 4, 6
_BETWEEN_LOOKS = 64


def read_pattern(parameter: str, text: str) -> Any:
    """Compile a user's regular expression. Raises: InvalidRequest that names the parameter."""
    if len(text) > LONGEST:
        raise _bad(parameter, f"the pattern is longer than {LONGEST} characters")
    options = re2.Options()
    options.log_errors = False
    options.never_capture = True
    options.max_mem = _MEMORY
    try:
        pattern = re2.compile(text, options)
    except re2.error as error:
        reason = error.args[0] if error.args else ""
        said = reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
        raise _bad(parameter, f"the pattern is not a regular expression ({said[:200]})") from None
    if pattern.programsize > MOST_INSTRUCTIONS:
        raise _bad(parameter, "the pattern has too many repetitions")
    return pattern


class AddressPatterns:
    """Regular expressions for addresses, by IP version. Raises: InvalidRequest for a bad regular expression."""

    def __init__(self, by_version: Mapping[int, str]) -> None:
        self._searches = {
            version: read_pattern("ip" if version == _IPV4 else "ip6", text).search
            for version, text in by_version.items()
        }

    def search(self, address: str) -> Any:
        """Match an address against the expression for its IP version; return None if it does not match."""
        search = self._searches.get(_IPV6 if ":" in address else _IPV4)
        return None if search is None else search(address)


def matching(
    patterns: Mapping[str, Any],
    rows: Iterable[Sequence[Any]],
    wanted: int,
    *,
    clock: Callable[[], float] = time.monotonic,
) -> list[int]:
    """Return the ids of the first ``wanted`` rows that match all patterns.

    ``patterns``: parameter → compiled pattern. ``rows``: an id, then one text per pattern in the same order; a text of
    None never matches. Rows with the same id, which follow one another, count once. Raises: InvalidRequest that names a
    parameter if the search takes too long; DeadlineExceeded, ClientGone.
    """
    found: list[int] = []
    searches = [pattern.search for pattern in patterns.values()]
    ends_at = clock() + LONGEST_SEARCH_S
    for number, (row_id, *texts) in enumerate(rows):
        if number % _BETWEEN_LOOKS == 0:
            deadline.check()
            if clock() > ends_at:
                raise _bad(
                    next(iter(patterns)),
                    f"the search takes more than {LONGEST_SEARCH_S:g} seconds; use a simpler pattern",
                )
        if found and found[-1] == row_id:
            continue
        if all(text is not None and search(text) is not None for search, text in zip(searches, texts, strict=True)):
            found.append(row_id)
            if len(found) == wanted:
                break
    return found


def _bad(parameter: str, reason: str) -> InvalidRequest:
    return InvalidRequest(f"Invalid filter {parameter}: {reason}.", field=parameter)
