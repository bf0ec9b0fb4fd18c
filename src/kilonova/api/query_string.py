# SPDX-License-Identifier: Apache-2.0
"""Read query strings: every value of each parameter, in order. What was read lately is remembered.

Clients of Placement and monitoring ask the same again and again. Only short texts are remembered, and a bounded number.
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
#: How many texts are remembered, and how long each may be.
REMEMBERED, REMEMBERED_LENGTH = 256, 2_048


def read_query_string(text: str, settings: ApiSettings) -> Query:
    """Return the parameters. Raises: HttpError 414, InvalidRequest."""
    if not text:
        return _NOTHING
    if len(text) > settings.max_query_length:
        raise HttpError(
            414, f"The query string may have {settings.max_query_length} bytes, and this one has {len(text)}."
        )
    read = _remembered if len(text) <= REMEMBERED_LENGTH else parsed
    try:
        return read(text, settings.max_query_parameters)
    except ValueError:
        raise InvalidRequest(
            f"Invalid input for query parameters: there may be {settings.max_query_parameters} of them, and there are"
            f" {text.count('&') + 1}."
        ) from None


def parsed(text: str, most: int | None = None) -> Query:
    """Return the parameters. Raises: ValueError for more than ``most``, InvalidRequest for what no database stores."""
    query: dict[str, list[str]] = {}
    for name, value in parse_qsl(text, keep_blank_values=True, max_num_fields=most):
        if "\0" in name or "\0" in value:
            raise InvalidRequest(f"Invalid input for query parameters {name!r}: it holds a null character.")
        query.setdefault(name, []).append(value)
    return MappingProxyType({name: tuple(values) for name, values in query.items()})


_remembered = lru_cache(maxsize=REMEMBERED)(parsed)
