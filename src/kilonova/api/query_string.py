# SPDX-License-Identifier: Apache-2.0
"""Query string parser with a cache: every value of each parameter, in order.

Clients of Placement and monitoring repeat the same queries. The cache holds short strings only and is bounded.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType
from urllib.parse import parse_qsl

from kilonova.api.faults import HttpError
from kilonova.config.api import ApiSettings
from kilonova.errors import InvalidRequest

Query = Mapping[str, Sequence[str]]
_NOTHING: Query = MappingProxyType({})
#: Cache size: number of query strings, and the longest one cached in characters.
REMEMBERED, REMEMBERED_LENGTH = 256, 2_048


def read_query_string(text: str, settings: ApiSettings) -> Query:
    """Return the parameters of a query string. Raises: HttpError 414, InvalidRequest."""
    if not text:
        return _NOTHING
    if len(text) > settings.max_query_length:
        raise HttpError(
            414, f"The query string has {len(text)} bytes; at most {settings.max_query_length} are allowed."
        )
    read = _remembered if len(text) <= REMEMBERED_LENGTH else parsed
    try:
        return read(text, settings.max_query_parameters)
    except ValueError:
        raise InvalidRequest(
            f"Invalid input for query parameters: {text.count('&') + 1} parameters were given; at most"
            f" {settings.max_query_parameters} are allowed."
        ) from None


def parsed(text: str, most: int | None = None) -> Query:
    """Return the parameters. Raises: ValueError for more than ``most`` of them, InvalidRequest for null characters."""
    query: dict[str, list[str]] = {}
    for name, value in parse_qsl(text, keep_blank_values=True, max_num_fields=most):
        if "\0" in name or "\0" in value:
            raise InvalidRequest(f"Invalid input for query parameters {name!r}: it contains a null character.")
        query.setdefault(name, []).append(value)
    return MappingProxyType({name: tuple(values) for name, values in query.items()})


_remembered = lru_cache(maxsize=REMEMBERED)(parsed)
