# SPDX-License-Identifier: Apache-2.0
"""JSON Schemas as data: a fast check on every request, and the words for the error when it fails."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar

import jsonschema_rs

from kilonova.api.microversion import Version
from kilonova.errors import InvalidRequest

Schema = Mapping[str, Any]
_MESSAGE = 1000


class Compiled:
    """One schema, ready to check and to explain."""

    formats: ClassVar[Mapping[str, Callable[[str], bool]]] = {}

    def __init__(self, schema: Schema) -> None:
        self.schema = dict(schema)
        self._fast = jsonschema_rs.validator_for(self.schema, validate_formats=True, formats=dict(self.formats))
        self.is_valid = self._fast.is_valid

    def explain(self, instance: Any) -> InvalidRequest:
        """Return the error for an instance that does not fit, naming the field."""
        try:
            return self._explain(instance)
        except RecursionError:
            return invalid_field("body", "It is nested too deeply.")

    def _explain(self, instance: Any) -> InvalidRequest:
        import jsonschema  # noqa: PLC0415 - slow to import, and most processes start without a bad request

        validator = jsonschema.Draft202012Validator(self.schema, format_checker=jsonschema.FormatChecker())
        errors = sorted(validator.iter_errors(instance), key=lambda error: [str(part) for part in error.absolute_path])
        if not errors:  # the two differ in corners, such as a line break at the end of a text that has a pattern
            found = next(self._fast.iter_errors(instance))
            return _refusal(found.instance_path, found.instance, found.message)
        error = jsonschema.exceptions.best_match(errors) or errors[0]
        return _refusal(error.absolute_path, error.instance, error.message)


def _refusal(path: Iterable[Any], value: Any, message: str) -> InvalidRequest:
    field, message = ".".join(str(part) for part in path), shortened(message)
    if not field:
        return InvalidRequest(message)
    return invalid_field(field, f"Value: {shortened(str(value))}. {message}")


def invalid_field(field: str, message: str) -> InvalidRequest:
    """Return the error for a field of a body."""
    return InvalidRequest(f"Invalid input for field/attribute {field}. {message}", field=field)


def invalid_parameter(name: str, value: object, message: str) -> InvalidRequest:
    """Return the error for a parameter of a query."""
    return InvalidRequest(f"Invalid input for query parameters {name}. Value: {value}. {message}", field=name)


def shortened(text: str) -> str:
    """Return both ends of a text that is long: what was wrong with a long value is said after it."""
    half = _MESSAGE // 2
    return text if len(text) <= _MESSAGE else f"{text[:half]} ... {text[-half:]}"


class Schemas:
    """The schema of one body or query by microversion: ``Schemas({(2, 1): {...}, (2, 55): {...}})``.

    A version before the first entry has no schema: anything is accepted there.
    """

    compiled_by: ClassVar[type[Compiled]] = Compiled

    def __init__(self, by_version: Mapping[tuple[int, int], Schema]) -> None:
        self._steps = sorted((Version(*version), schema) for version, schema in by_version.items())
        self._compiled: dict[int, Compiled] = {}

    def check(self, instance: Any, version: Version) -> None:
        """Raise InvalidRequest naming the field unless ``instance`` fits the schema in force at ``version``."""
        index = -1
        for start, _ in self._steps:
            if version < start:
                break
            index += 1
        if index < 0:
            return
        compiled = self._compiled.get(index)
        if compiled is None:
            compiled = self._compiled[index] = self.compiled_by(self._steps[index][1])
        if not compiled.is_valid(instance):
            raise compiled.explain(instance)
