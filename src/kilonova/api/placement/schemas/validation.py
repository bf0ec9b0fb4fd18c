# SPDX-License-Identifier: Apache-2.0
"""Schemas whose errors have Placement's format: a fixed phrase that clients search for, then jsonschema's full text."""

import re
import uuid
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from kilonova.api.validation import Compiled, Schemas, shortened, wording_validator
from kilonova.errors import InvalidRequest

_LONGEST = 8000
#: Canonical form of a uuid. It is checked first, because most uuids have it.
_USUAL = re.compile("[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_NOT_HEX = re.compile(r"[^0-9a-fA-F]")


def is_uuid_like(text: object) -> bool:
    """Whether ``text`` is a uuid, in upper or lower case, with or without dashes. True for a value of another type."""
    if not isinstance(text, str) or _USUAL.fullmatch(text):
        return True
    digits = text.replace("urn:", "").replace("uuid:", "").strip("{}").replace("-", "")
    return len(digits) == 32 and not _NOT_HEX.search(digits)


def normal_uuid(text: str) -> str:
    """Return a uuid in lower case with dashes. ``text`` must be a uuid by :func:`is_uuid_like`."""
    return text if _USUAL.fullmatch(text) else str(uuid.UUID(text))


class _InFull(Compiled):
    formats: ClassVar[Mapping[str, Callable[[str], bool]]] = {"uuid": is_uuid_like}
    prefix: ClassVar[str]

    def _explain(self, instance: Any) -> InvalidRequest:
        import jsonschema  # noqa: PLC0415 - slow to import, and most processes start without a bad request

        checker = jsonschema.FormatChecker()
        checker.checks("uuid")(is_uuid_like)
        validator = wording_validator()(self.schema, format_checker=checker)
        error = jsonschema.exceptions.best_match(validator.iter_errors(instance))
        if error is None:  # rare: only the fast validator refuses the value, e.g. a float as an integer
            return InvalidRequest(f"{self.prefix}: the value does not match its schema.")
        text = str(error)
        if len(text) > _LONGEST:
            text = f"{shortened(error.message)}\n\nFailed validating {error.validator!r} in schema"
        return InvalidRequest(f"{self.prefix}: {text}")

    def _first_error(self, instance: Any) -> InvalidRequest:
        found = self.first_found(instance)
        place = ".".join(map(str, found.instance_path))
        where = f"\n\nFailed validating {found.schema_path[-1]!r} in schema\n\nOn instance {shortened(place)}"
        return InvalidRequest(f"{self.prefix}: {shortened(found.message)}{where}")


class _Body(_InFull):
    prefix = "JSON does not validate"


class _Query(_InFull):
    prefix = "Invalid query string parameters"


class BodySchemas(Schemas):
    """Schemas of a request body, by microversion, with errors in Placement's format."""

    compiled_by = _Body


class QuerySchemas(Schemas):
    """Schemas of a query string, by microversion. They validate only the last value of each parameter."""

    compiled_by = _Query
