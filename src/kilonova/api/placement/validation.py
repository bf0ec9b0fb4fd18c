# SPDX-License-Identifier: Apache-2.0
"""Schemas that answer in Placement's words: what JSON Schema says, in full, after a phrase that clients look for."""

import re
import uuid
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import jsonschema

from kilonova.api.validation import Compiled, Schemas
from kilonova.errors import InvalidRequest

_NOT_HEX = re.compile(r"[^0-9a-fA-F]")


def is_uuid_like(text: object) -> bool:
    """Whether ``text`` is a uuid, with or without dashes, in any case."""
    if not isinstance(text, str):
        return True
    digits = text.replace("urn:", "").replace("uuid:", "").strip("{}").replace("-", "")
    return len(digits) == 32 and not _NOT_HEX.search(digits)


def normal_uuid(text: str) -> str:
    """Return a uuid with dashes and in lower case. ``text`` must be :func:`is_uuid_like`."""
    return str(uuid.UUID(text))


_CHECKER = jsonschema.FormatChecker()
_CHECKER.checks("uuid")(is_uuid_like)


class _InFull(Compiled):
    formats: ClassVar[Mapping[str, Callable[[str], bool]]] = {"uuid": is_uuid_like}
    prefix: ClassVar[str]

    def explain(self, instance: Any) -> InvalidRequest:
        validator = jsonschema.Draft202012Validator(self.schema, format_checker=_CHECKER)
        error = jsonschema.exceptions.best_match(validator.iter_errors(instance))
        return InvalidRequest(f"{self.prefix}: {error or 'the value does not match its schema.'}")


class _Body(_InFull):
    prefix = "JSON does not validate"


class _Query(_InFull):
    prefix = "Invalid query string parameters"


class BodySchemas(Schemas):
    """Schemas of a request body by microversion."""

    compiled_by = _Body


class QuerySchemas(Schemas):
    """Schemas of a query string by microversion. What they see is parameter → last value."""

    compiled_by = _Query
