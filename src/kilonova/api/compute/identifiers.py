# SPDX-License-Identifier: Apache-2.0
"""Parsers of ids in paths, which distinguish malformed ids (400) from unknown ones (404)."""

import re
from uuid import UUID

from kilonova.errors import InvalidRequest

_INTEGER = re.compile(r"-?[0-9]+")
_MAX_ID = 2**63 - 1


def integer_id(text: str, name: str) -> int:
    """Return an integer id, or -1, which no row has, if it exceeds 64 bits. Raises: InvalidRequest."""
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
