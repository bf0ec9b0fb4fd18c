# SPDX-License-Identifier: Apache-2.0
"""Parsers of ids in paths. A malformed id causes 400, in contrast to the 404 for an unknown id."""

import re
from uuid import UUID

from kilonova.errors import InvalidRequest

_INTEGER = re.compile(r"-?[0-9]+")
_MAX_ID = 2**63 - 1


def integer_id(text: str, name: str) -> int:
    """Return an integer id. For a number of more than 64 bits, return -1, an id that no row has.

    Raises: InvalidRequest.
    """
    if _INTEGER.fullmatch(text) is None:
        raise InvalidRequest(f"Invalid input received: {name} must be an integer, not '{text}'.", field=name)
    value = int(text) if len(text) < 20 else -1
    return value if abs(value) <= _MAX_ID else -1


def uuid_id(text: str, name: str) -> str:
    """Return a uuid in canonical form. Raises: InvalidRequest."""
    try:
        return str(UUID(text))
    except ValueError:
        raise InvalidRequest(f"Invalid input received: {name} must be a UUID, not '{text}'.", field=name) from None
