# SPDX-License-Identifier: Apache-2.0
"""Parser of query strings, with a cache, because Placement's clients and monitoring repeat the same queries.

The number of cached query strings is limited, and long ones are not cached.
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
#: Maximum number of cached query strings, and maximum length in characters of a query string that is cached.
REMEMBERED, REMEMBERED_LENGTH = 256, 2_048


def read_query_string(text: str, settings: ApiSettings) -> Query:
    """Return query parameter → all its values, in the order of the query string.

    Raises: HttpError 414 for a long query string, InvalidRequest.
    """
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
    """Return query parameter → all its values. This function does not use the cache.

    Raises: ValueError for more than ``most`` parameters, InvalidRequest for null characters.
    """
    query: dict[str, list[str]] = {}
    for name, value in parse_qsl(text, keep_blank_values=True, max_num_fields=most):
        if "\0" in name or "\0" in value:
            raise InvalidRequest(f"Invalid input for query parameters {name!r}: it contains a null character.")
        query.setdefault(name, []).append(value)
    return MappingProxyType({name: tuple(values) for name, values in query.items()})


_remembered = lru_cache(maxsize=REMEMBERED)(parsed)
